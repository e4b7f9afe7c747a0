# Debian's libtorch names libraries of which it calls nothing: for pictures, films
# and databases. With what these name in turn they are most of what a program with
# libtorch loads. For those that `ldd -u`
# finds unused, empty ones of the same names are put into FOLDER, to be found
# first by a program whose DT_RPATH that is, and by none that it starts.
# STAND_INS is how many there are.

set(UNUSED_NAMES
    "^lib(opencv_[a-z0-9]+|avcodec|avformat|avutil|swscale|swresample|lmdb|leveldb|zmq)[.]so")

function(make_stand_ins FOLDER)
  set(STAND_INS 0 PARENT_SCOPE)
  file(REMOVE_RECURSE ${FOLDER})
  find_program(LDD ldd)
  if(NOT LDD OR NOT TARGET torch_cpu)
    return()
  endif()
  get_target_property(libtorch torch_cpu LOCATION)
  execute_process(COMMAND ${LDD} -u ${libtorch} OUTPUT_VARIABLE unused ERROR_QUIET)
  string(REGEX MATCHALL "[^/\n]+(\n|$)" unused "${unused}")
  file(MAKE_DIRECTORY ${FOLDER})
  set(made 0)
  foreach(name IN LISTS unused)
    string(STRIP "${name}" name)
    if(NOT name MATCHES "${UNUSED_NAMES}")
      continue()
    endif()
    execute_process(
      COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib -x c /dev/null
              -Wl,-soname,${name} -o ${FOLDER}/${name}
      COMMAND_ERROR_IS_FATAL ANY)
    math(EXPR made "${made} + 1")
  endforeach()
  message(STATUS "Libraries that libtorch names and does not use: ${made}")
  set(STAND_INS ${made} PARENT_SCOPE)
endfunction()
