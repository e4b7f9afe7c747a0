# `cmake --install build` gives the program, the library with its headers, the
# configurations, the documentation (a configuration learns from it), and
# find_package(propagator) -> propagator::propagator.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/propagator)

install(TARGETS propagator EXPORT propagatorTargets)
install(TARGETS propagator_program DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/propagator
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h"
        PATTERN "cli" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs ${PROJECT_SOURCE_DIR}/problems
        DESTINATION ${CMAKE_INSTALL_DATADIR}/propagator)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs
        DESTINATION ${CMAKE_INSTALL_DATADIR}/propagator
        FILES_MATCHING PATTERN "*.md"
        PATTERN "pictures" EXCLUDE)
install(EXPORT propagatorTargets NAMESPACE propagator::
        DESTINATION ${PACKAGE_DIR})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/propagatorConfig.cmake.in
  ${PROJECT_BINARY_DIR}/propagatorConfig.cmake
  INSTALL_DESTINATION ${PACKAGE_DIR})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/propagatorConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/dependencies.cmake
              ${PROJECT_BINARY_DIR}/propagatorConfig.cmake
              ${PROJECT_BINARY_DIR}/propagatorConfigVersion.cmake
        DESTINATION ${PACKAGE_DIR})
