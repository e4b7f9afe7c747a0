# Installs the build into a folder and compiles examples/ against it, as a
# user's own project does; then runs the installed program and the examples:
# one trains a model, the next opens the run that was trained and asks it.

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
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${stage}/prefix)
foreach(example forecast_plate train_a_model use_a_run)
  run(${CMAKE_COMMAND} -S ${SOURCE}/examples/${example} -B ${stage}/${example}
      -G Ninja -DCMAKE_BUILD_TYPE=Debug
      -DCMAKE_PREFIX_PATH=${stage}/prefix -DTorch_DIR=${TORCH_DIR})
  run(${CMAKE_COMMAND} --build ${stage}/${example})
endforeach()
run(${stage}/forecast_plate/forecast_plate)
# Away from the sources, so that the installed configurations are found.
run(${CMAKE_COMMAND} -E chdir ${stage} prefix/bin/propagator check
    forecast/tiny)
run(${stage}/train_a_model/train_a_model ${stage}/tiny)
run(${stage}/use_a_run/use_a_run ${stage}/tiny)
if(NOT output MATCHES "out  fields \\(8, ")
  message(FATAL_ERROR "use_a_run has no forecast of 8 plates:\n${output}")
endif()
