# colibri.h for other programs: libcolibri.so, and libcolibri.a of the same objects. Their ranks are threads of the
# host program, so MPI stays out: the object that says so comes before the archive that has it.
include(GNUInstallDirs)

add_library(colibri_embedding OBJECT c_api.cc c_api_structs.cc served_model.cc)
target_link_libraries(colibri_embedding PUBLIC colibri_launch)
set(embedding_objects $<TARGET_OBJECTS:colibri_embedding> $<TARGET_OBJECTS:colibri_no_mpi>)

set(embedding_map ${CMAKE_CURRENT_SOURCE_DIR}/libcolibri.map)
add_library(libcolibri SHARED ${embedding_objects})
target_link_libraries(libcolibri PRIVATE colibri_launch)
target_link_options(libcolibri PRIVATE -Wl,--version-script=${embedding_map} -Wl,--as-needed)
set_target_properties(libcolibri PROPERTIES
  OUTPUT_NAME colibri
  VERSION ${PROJECT_VERSION}
  SOVERSION 0
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
  LINK_DEPENDS ${embedding_map})

# One relocatable object, in which only colibri.h's functions are global: a program may have its own spdlog or JSON.
set(embedding_archive ${PROJECT_BINARY_DIR}/libcolibri.a)
set(embedding_parts)
foreach(folder base model topology transport kernels worker coordinator launch)
  list(APPEND embedding_parts $<TARGET_FILE:colibri_${folder}>)
endforeach()
add_custom_command(OUTPUT ${embedding_archive}
  COMMAND ${CMAKE_COMMAND} -E env "LD=${CMAKE_LINKER}" "NM=${CMAKE_NM}" "OBJCOPY=${CMAKE_OBJCOPY}" "AR=${CMAKE_AR}"
    ${CMAKE_CURRENT_SOURCE_DIR}/one_object.sh ${embedding_archive} ${embedding_objects} ${embedding_parts}
  DEPENDS one_object.sh colibri_embedding colibri_no_mpi ${embedding_objects} colibri_launch ${embedding_parts}
  COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(libcolibri_static ALL DEPENDS ${embedding_archive})

# Installed files find each other wherever they are moved together.
file(RELATIVE_PATH embedding_to_include
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(colibri.pc.in ${CMAKE_CURRENT_BINARY_DIR}/colibri.pc @ONLY)
configure_file(colibri-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/colibri-config.cmake @ONLY)
install(TARGETS colibri RUNTIME)
install(TARGETS libcolibri LIBRARY)
install(FILES colibri.h TYPE INCLUDE)
install(FILES ${embedding_archive} TYPE LIB)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/colibri.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/colibri-config.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/colibri)
if(TARGET colibri_cuda)
  install(TARGETS colibri_cuda LIBRARY)
endif()
