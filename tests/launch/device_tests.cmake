# Choosing devices, without any: fake backends in the process, and shared objects that only look like
# libcolibri_cuda.so.
foreach(name other_version no_symbol)
  add_library(${name} SHARED ${name}.cc)
  target_link_libraries(${name} PRIVATE colibri_flags)
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/made_up_backends)
endforeach()
colibri_test(device_test unit
  SOURCES
    capacity_test.cc
    cuda_backend_test.cc
    device_choice_test.cc
    doctor_gpus_test.cc
    gpu_plan_test.cc
  LINK colibri_launch)
add_dependencies(device_test other_version no_symbol)

# The real one, on a GPU or on the simulated device.
if(NOT COLIBRI_CUDA STREQUAL "off")
  colibri_test(cuda_backend_test cuda SOURCES ../cuda/backend_test.cc LINK colibri_launch)
  add_dependencies(cuda_backend_test colibri_cuda)
endif()
