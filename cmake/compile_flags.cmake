set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")  # the kernels ask for more themselves
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # the same objects make the program and libcolibri.so

# Flags that every target shares. -ffp-contract=off is part of the numeric contract (docs/design.md, section 5).
add_library(colibri_flags INTERFACE)
target_compile_options(colibri_flags INTERFACE
  $<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Wall;-Wextra;-Wswitch-enum;-Wshadow;-Werror;-ffp-contract=off;-fno-semantic-interposition>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wswitch-enum,-ffp-contract=off>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlapping copies in std::string's operator+ that are not there (its bug 105651).
  target_compile_options(colibri_flags INTERFACE
    $<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Wno-restrict;-Wno-unknown-warning-option>)  # the second for clang-tidy, which reads these flags
endif()
target_include_directories(colibri_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(COLIBRI_SANITIZE STREQUAL "address")
  target_compile_options(colibri_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(colibri_flags INTERFACE -fsanitize=address,undefined)
elseif(COLIBRI_SANITIZE STREQUAL "thread")
  # Asio's fences are not understood, which g++ says in every file that has one.
  target_compile_options(colibri_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  target_link_options(colibri_flags INTERFACE -fsanitize=thread)
elseif(NOT COLIBRI_SANITIZE STREQUAL "")
  message(FATAL_ERROR "COLIBRI_SANITIZE=${COLIBRI_SANITIZE}; want empty, address or thread")
endif()

# For what only tests are made of, which is compiled to run for a few seconds: -O2 took a fourth more of the compiler's time
# than -O1 does in release builds, -O1 two thirds more than -O0 under sanitizers, and the tests run as fast. What tests call
# (kernels, the simulated device, ...) keeps its level.
set(COLIBRI_TEST_OPTIONS
  $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C,CXX>>:-O1>
  $<$<AND:$<CONFIG:Debug>,$<COMPILE_LANGUAGE:C,CXX>>:-O0>)
