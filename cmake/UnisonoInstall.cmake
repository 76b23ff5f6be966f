# cmake --install: the library, its headers, the command, and the package that find_package(unisono) reads.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/unisono)
install(TARGETS unisono EXPORT unisonoTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/unisono DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The device headers that visitors include (docs/device-visitors.md)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/kernels/unisono DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT unisonoTargets NAMESPACE unisono:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/unisonoConfig.cmake.in ${PROJECT_BINARY_DIR}/unisonoConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/unisonoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/unisonoConfig.cmake ${PROJECT_BINARY_DIR}/unisonoConfigVersion.cmake ${PROJECT_SOURCE_DIR}/cmake/UnisonoKernels.cmake
        DESTINATION ${package_dir})
# Kernels that were compiled ahead (unisono pack): programs look for them next to the library
set(UNISONO_PACK "" CACHE PATH "A folder that `unisono pack` has made, to be installed")
if(UNISONO_PACK)
  install(DIRECTORY ${UNISONO_PACK}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/unisono/kernels)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png" PATTERN "notes" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN "CMakeLists.txt" EXCLUDE)

# oneDNN from scripts/setup.sh or scripts/onednn.sh is not in a system folder: install a copy next to our library
cmake_path(IS_PREFIX UNISONO_DNNL_DIR "${UNISONO_DNNL_LIBRARY}" NORMALIZE dnnl_is_ours)
if(UNISONO_DNNL_DIR AND dnnl_is_ours)
  file(REAL_PATH ${UNISONO_DNNL_LIBRARY} dnnl_file)
  install(FILES ${dnnl_file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/unisono RENAME libdnnl.so.3)
endif()
set_target_properties(unisono PROPERTIES INSTALL_RPATH "$ORIGIN/unisono")
if(TARGET unisono_command)
  install(TARGETS unisono_command EXPORT unisonoTargets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set_target_properties(unisono_command PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/unisono")
endif()
