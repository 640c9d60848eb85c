# cmake --install, and the package that find_package(fovea) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS fovea fovea_flags EXPORT foveaTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fovea DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The model that `fovea ask` uses without --model, where the tree has it.
if(EXISTS ${PROJECT_SOURCE_DIR}/models/tiny)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fovea/models)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/fovea)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fovea)
install(EXPORT foveaTargets NAMESPACE fovea:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/foveaConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/foveaConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/foveaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/foveaConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/foveaConfigVersion.cmake DESTINATION ${package_dir})
