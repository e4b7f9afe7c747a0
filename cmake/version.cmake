# The version that `propagator info` and every result.json carry: the project's
# number and, in a git checkout, the commit (with + when files were changed).

find_package(Git QUIET)
set(PROPAGATOR_COMMIT "")
if(GIT_FOUND)
  execute_process(
    COMMAND ${GIT_EXECUTABLE} describe --always --abbrev=12 --dirty=+
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    OUTPUT_VARIABLE PROPAGATOR_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in
               ${PROJECT_BINARY_DIR}/generated/propagator/core/version.h @ONLY)
