# colibri_folders(a b ...): adds each folder that COLIBRI_ONLY lets through.
function(colibri_folders)
  foreach(folder IN LISTS ARGN)
    if((COLIBRI_ONLY STREQUAL "" OR folder IN_LIST COLIBRI_ONLY)
       AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt)
      add_subdirectory(${folder})
    endif()
  endforeach()
endfunction()

# colibri_library(NAME SOURCES ... LINK ...): the one library of a folder.
function(colibri_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(colibri_${name} STATIC ${arg_SOURCES})
  target_link_libraries(colibri_${name} PUBLIC colibri_flags ${arg_LINK})
  # Optimising what the address sanitizer adds takes far longer than it saves these folders' tests.
  if(COLIBRI_SANITIZE STREQUAL "address" AND name MATCHES "^(topology|worker|coordinator|launch)$")
    target_compile_options(colibri_${name} PRIVATE $<$<CONFIG:Debug>:-O0>)
  endif()
endfunction()

# For programs that run elsewhere (tests/gpu/pack.sh): ".", and they start beside configs/ and tests/data/.
set(COLIBRI_TESTED_DIR "${PROJECT_SOURCE_DIR}" CACHE STRING "Where test programs find the source tree")

# colibri_cuda_tests(TARGETS...): what the tests of the label cuda need is built by the target cuda_tests.
function(colibri_cuda_tests)
  if(NOT TARGET cuda_tests)
    add_custom_target(cuda_tests)
  endif()
  add_dependencies(cuda_tests ${ARGN})
endfunction()

# colibri_test(NAME LABEL SOURCES ... LINK ...): a GoogleTest program whose cases ctest lists one by one.
function(colibri_test name label)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    COLIBRI_SOURCE_DIR="${COLIBRI_TESTED_DIR}" COLIBRI_BINARY_DIR="${PROJECT_BINARY_DIR}")
  gtest_discover_tests(${name} PROPERTIES LABELS ${label} TIMEOUT 300)
  if(label STREQUAL "cuda")
    colibri_cuda_tests(${name})
  endif()
endfunction()
