# Time of an exchange over local and MPI ranks; see the head of the source.
add_executable(transport_bench transport_bench.cc)
target_link_libraries(transport_bench PRIVATE colibri_transport)
if(TARGET colibri_cuda_transport AND TARGET colibri_cuda_base AND COLIBRI_MPI)
  add_executable(nccl_exchange_bench nccl_exchange_bench.cc)
  target_link_libraries(nccl_exchange_bench PRIVATE colibri_cuda_transport colibri_cuda_base)
endif()
