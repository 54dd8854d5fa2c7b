# Time of an exchange over local and MPI ranks; see the head of the source.
add_executable(transport_bench transport_bench.cc)
target_link_libraries(transport_bench PRIVATE colibri_transport)
