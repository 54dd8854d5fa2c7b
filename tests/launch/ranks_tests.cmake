# --ranks N, tried from outside with a small program in the place of colibri.
if(COLIBRI_MPI)
  add_executable(ranks_program ranks_program.cc)
  target_link_libraries(ranks_program PRIVATE colibri_launch)
  add_executable(ranks_test ranks_test.cc)
  target_link_libraries(ranks_test PRIVATE colibri_flags GTest::gtest GTest::gtest_main)
  target_compile_definitions(ranks_test PRIVATE COLIBRI_BINARY_DIR="${PROJECT_BINARY_DIR}")
  add_dependencies(ranks_test ranks_program)
  gtest_discover_tests(ranks_test
    PROPERTIES LABELS multi TIMEOUT 120 RESOURCE_LOCK colibri_ranks)
endif()
