# cmake/version.cmake in a repository of its own: the commit, a + where sources
# were changed and none where results were, COMMIT where there is no git; and a
# file that says the same is not touched.

cmake_policy(VERSION 3.25)
find_package(Git REQUIRED)
file(REMOVE_RECURSE ${STAGE})
set(tree ${STAGE}/tree)
file(COPY ${SOURCE}/propagator/core/version.cpp.in
     DESTINATION ${tree}/propagator/core)
function(git)
  execute_process(
    COMMAND ${GIT_EXECUTABLE} -C ${tree} -c user.name=test -c user.email=test
            ${ARGV}
    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  set(output ${output} PARENT_SCOPE)
endfunction()
function(expect commit)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${tree} -DOUTPUT=${STAGE}/version.cpp
            -DVERSION=1.2.3 -DCOMMIT=given -P ${SOURCE}/cmake/version.cmake
    COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${STAGE}/version.cpp text)
  foreach(line "kVersion = \"1.2.3\"" "kCommit = \"${commit}\"")
    string(FIND "${text}" "${line}" found)
    if(found EQUAL -1)
      message(FATAL_ERROR "expected ${line}, got\n${text}")
    endif()
  endforeach()
  file(TIMESTAMP ${STAGE}/version.cpp written "%s")
  set(written ${written} PARENT_SCOPE)
endfunction()

expect(given)
git(init --quiet)
git(add .)
git(commit --quiet -m first)
git(rev-parse --short=12 HEAD)
expect(${output})
set(first ${written})
execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 1.1)
file(WRITE ${tree}/results/row.json "{}")
expect(${output})
if(NOT written EQUAL first)
  message(FATAL_ERROR "the file was written again")
endif()
file(WRITE ${tree}/configs/mine.yaml "")
expect(${output}+)
git(add configs)
git(commit --quiet -m second)
git(rev-parse --short=12 HEAD)
expect(${output})
