# Installs the build into a folder and compiles examples/ against it, as a
# user's own project does; then runs the example and the installed program.

cmake_policy(VERSION 3.25)
set(stage ${BUILD}/install-test)
file(REMOVE_RECURSE ${stage})
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}: ${status}\n${output}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${stage}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/forecast_plate -B ${stage}/example
    -G Ninja -DCMAKE_BUILD_TYPE=Debug
    -DCMAKE_PREFIX_PATH=${stage}/prefix -DTorch_DIR=${TORCH_DIR})
run(${CMAKE_COMMAND} --build ${stage}/example)
run(${stage}/example/forecast_plate)
# Away from the sources, so that the installed configurations are found.
run(${CMAKE_COMMAND} -E chdir ${stage} prefix/bin/propagator check
    forecast/tiny)
