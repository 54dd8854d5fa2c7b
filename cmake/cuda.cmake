# The GPU's part: COLIBRI_CUDA=on compiles it with nvcc, =simulated compiles the same sources for the
# host against tests/simulated_device. Never looks for a GPU.
if(COLIBRI_CUDA STREQUAL "off")
  return()
endif()

# What CUDA sources are compiled with and linked to.
add_library(colibri_cuda_toolkit INTERFACE)

if(COLIBRI_CUDA STREQUAL "on")
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(CMAKE_CUDA_COMPILER nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  endif()
  # A third of the time: -DCMAKE_CUDA_ARCHITECTURES=native where there is a GPU, or 90-real, ...
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90-real;100-real")
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 knows no C++20 of nvcc
  set(CMAKE_CUDA_STANDARD 20)
  find_package(CUDAToolkit REQUIRED)
  target_link_libraries(colibri_cuda_toolkit INTERFACE CUDA::cudart_static)
  target_include_directories(colibri_cuda_toolkit INTERFACE ${PROJECT_SOURCE_DIR}/kernels/cuda/ptx)
  # --fmad=false is part of the numeric contract (docs/design.md, section 5). Registers that go to memory are an error.
  target_compile_options(colibri_cuda_toolkit INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--expt-relaxed-constexpr;-Werror=all-warnings;-Xptxas=-warn-spills>)
else()
  add_subdirectory(tests/simulated_device)
  target_link_libraries(colibri_cuda_toolkit INTERFACE colibri_simulated_device)
  target_compile_options(colibri_cuda_toolkit INTERFACE
    -march=x86-64-v3 $<$<NOT:$<CONFIG:Release>>:-O2> -Wno-unknown-pragmas)
endif()

# colibri_cuda_library(NAME SOURCES ... LINK ...): a part of libcolibri_cuda.so.
function(colibri_cuda_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(colibri_${name} STATIC ${arg_SOURCES})
  target_link_libraries(colibri_${name} PUBLIC ${arg_LINK} colibri_cuda_toolkit)
  if(COLIBRI_CUDA STREQUAL "simulated")
    set(kernel_sources ${arg_SOURCES})
    list(FILTER kernel_sources INCLUDE REGEX "[.]cu$")
    set_source_files_properties(${kernel_sources} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
  endif()
endfunction()
