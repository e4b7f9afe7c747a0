# Says from which sources the program is built: writes OUTPUT, a C++ file with
# VERSION and the commit of SOURCE (with + where what makes the numbers was
# changed since; where there is no git, COMMIT as it was given). A step of every
# build, since commits come between builds; the file is only touched where it
# says something new.

find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${SOURCE}/.git)
  set(git ${GIT_EXECUTABLE} --no-optional-locks -C ${SOURCE})
  execute_process(COMMAND ${git} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(
    COMMAND ${git} status --porcelain --
            CMakeLists.txt bench cmake configs problems propagator
    OUTPUT_VARIABLE changes ERROR_QUIET)
  if(COMMIT AND changes)
    string(APPEND COMMIT "+")
  endif()
endif()
configure_file(${SOURCE}/propagator/core/version.cpp.in ${OUTPUT} @ONLY)
