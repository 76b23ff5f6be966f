# cmake --install: the library, its headers, the command, and the package that find_package(coda) reads.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/coda)
install(TARGETS coda EXPORT codaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/coda DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT codaTargets NAMESPACE coda:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/codaConfig.cmake.in ${PROJECT_BINARY_DIR}/codaConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/codaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/codaConfig.cmake ${PROJECT_BINARY_DIR}/codaConfigVersion.cmake DESTINATION ${package_dir})
# Kernels that were compiled ahead (coda pack): programs find them beside the library
set(CODA_PACK "" CACHE PATH "A folder that `coda pack` has made, to be installed")
if(CODA_PACK)
  install(DIRECTORY ${CODA_PACK}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/coda/kernels)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# oneDNN from scripts/setup.sh lies outside the system's folders: take it along, and find it beside our library
cmake_path(IS_PREFIX CODA_DEPS_DIR "${CODA_DNNL_LIBRARY}" NORMALIZE dnnl_is_ours)
if(CODA_DEPS_DIR AND dnnl_is_ours)
  file(REAL_PATH ${CODA_DNNL_LIBRARY} dnnl_file)
  install(FILES ${dnnl_file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/coda RENAME libdnnl.so.3)
endif()
set_target_properties(coda PROPERTIES INSTALL_RPATH "$ORIGIN/coda")
if(TARGET coda_command)
  install(TARGETS coda_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set_target_properties(coda_command PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/coda")
endif()
