# `cmake --install build` gives the program, the library with its headers, the
# shared library with the C interface and its Fortran module, the configurations,
# the documentation (a configuration learns from it), and find_package(propagator)
# -> propagator::propagator, propagator::c, and pkg-config's propagator.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/propagator)

# Three components, which are also the Debian packages (package.cmake): the
# `program` with all that it reads, the shared `library`, and `dev`.
install(TARGETS propagator EXPORT propagatorTargets COMPONENT dev)
install(TARGETS propagator_c EXPORT propagatorCTargets
        LIBRARY COMPONENT library NAMELINK_COMPONENT dev)
install(TARGETS propagator_program DESTINATION ${CMAKE_INSTALL_BINDIR}
        COMPONENT program)
# Beside bin and under this name, whatever CMAKE_INSTALL_LIBEXECDIR says: there
# the start looks for it.
install(TARGETS propagator_main DESTINATION libexec COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/libexec/propagator.answers
        DESTINATION libexec COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/propagator
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
        FILES_MATCHING PATTERN "*.h" PATTERN "*.f90"
        PATTERN "cli" EXCLUDE
        PATTERN "capi/errors.h" EXCLUDE
        PATTERN "capi/host_scope.h" EXCLUDE
        PATTERN "capi/open_run.h" EXCLUDE
        PATTERN "capi/tensors.h" EXCLUDE
        PATTERN "serve/http_session.h" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs ${PROJECT_SOURCE_DIR}/problems
        DESTINATION ${CMAKE_INSTALL_DATADIR}/propagator COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs
        DESTINATION ${CMAKE_INSTALL_DATADIR}/propagator COMPONENT program
        FILES_MATCHING PATTERN "*.md"
        PATTERN "pictures" EXCLUDE)

# The program writes its own manual page and completions.
set(MANUAL ${PROJECT_BINARY_DIR}/manual)
install(CODE "
  foreach(what man bash zsh)
    execute_process(COMMAND $<TARGET_FILE:propagator_main> manual \${what}
                    OUTPUT_FILE ${MANUAL}/\${what} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()" COMPONENT program)
file(MAKE_DIRECTORY ${MANUAL})
install(FILES ${MANUAL}/man DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
        RENAME propagator.1 COMPONENT program)
install(FILES ${MANUAL}/bash RENAME propagator COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${MANUAL}/zsh RENAME _propagator COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)

install(EXPORT propagatorTargets NAMESPACE propagator::
        DESTINATION ${PACKAGE_DIR} COMPONENT dev)
install(EXPORT propagatorCTargets NAMESPACE propagator::
        DESTINATION ${PACKAGE_DIR} COMPONENT dev)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/propagatorConfig.cmake.in
  ${PROJECT_BINARY_DIR}/propagatorConfig.cmake
  INSTALL_DESTINATION ${PACKAGE_DIR}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/propagatorConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/dependencies.cmake
              ${PROJECT_BINARY_DIR}/propagatorConfig.cmake
              ${PROJECT_BINARY_DIR}/propagatorConfigVersion.cmake
        DESTINATION ${PACKAGE_DIR} COMPONENT dev)
# For those who build without CMake; it finds its prefix from where it lies.
file(RELATIVE_PATH PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/propagator.pc.in
               ${PROJECT_BINARY_DIR}/propagator.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/propagator.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
