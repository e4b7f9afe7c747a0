# Makes packages of the build, unpacks them into an empty root and compiles
# examples/ against that, as a user's own project does; then runs the program of
# the package and the examples: one trains a model, others open a run and ask it,
# from C++, C, Fortran and Python.

cmake_policy(VERSION 3.25)
set(packages gfortran python3-numpy dpkg-dev file man-db zsh)
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
function(build_example name)
  run(${CMAKE_COMMAND} -S ${SOURCE}/examples/${name} -B ${stage}/${name}
      -G Ninja -DCMAKE_BUILD_TYPE=Debug
      -DCMAKE_PREFIX_PATH=${prefix} -DTorch_DIR=${TORCH_DIR} ${ARGN})
  run(${CMAKE_COMMAND} --build ${stage}/${name})
endfunction()
function(expect pattern)
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "expected '${pattern}' in\n${output}")
  endif()
endfunction()
# What a machine may lack is said; where every change is judged it is an error.
function(without what)
  if(DEFINED ENV{CI})
    message(FATAL_ERROR "expected ${what}: scripts/setup ${packages}")
  endif()
  message("NOT TESTED: there is no ${what}")
endfunction()

# Packages say which others they need, so libtorch must be of one.
find_program(SHLIBDEPS dpkg-shlibdeps)
if(TORCH_DIR MATCHES "^/usr/(lib|share)/" AND SHLIBDEPS)
  run(${CPACK} --config ${BUILD}/CPackConfig.cmake -B ${stage}/packages)
  set(prefix ${stage}/root/usr)
  foreach(name propagator libpropagator0 libpropagator-dev)
    file(GLOB package ${stage}/packages/${name}_*.deb)
    run(dpkg-deb -x ${package} ${stage}/root)
    run(dpkg-deb -f ${package} Depends)
    set(depends_of_${name} "${output}")
  endforeach()
  set(output "${depends_of_libpropagator0}")
  expect("libtorch")
  set(output "${depends_of_libpropagator-dev}")
  expect("libpropagator0 \\(= ")
else()
  if(TORCH_DIR MATCHES "^/usr/(lib|share)/")
    without("dpkg-shlibdeps")
  endif()
  message("NOT TESTED: packages")
  set(prefix ${stage}/prefix)
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
endif()

foreach(python /usr/bin/python3 python3)
  execute_process(COMMAND ${python} -c "import numpy" RESULT_VARIABLE status
                  OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(PYTHON ${python})
    break()
  endif()
endforeach()
if(NOT PYTHON)
  without("python3 with numpy")
endif()

foreach(example forecast_plate train_a_model use_a_run use_a_run_from_c)
  build_example(${example})
endforeach()
run(${stage}/forecast_plate/forecast_plate)
# Away from the sources, so that the installed configurations are found.
run(${CMAKE_COMMAND} -E chdir ${stage} ${prefix}/bin/propagator check
    forecast/tiny)
run(${stage}/train_a_model/train_a_model ${stage}/tiny)
run(${stage}/use_a_run/use_a_run ${stage}/tiny)
expect("out  fields \\(8, ")

# A model that has learned something, for those who put it into their solver; that
# goes on from what it gave itself, so it learns from windows of long histories.
function(in_stage)
  run(${CMAKE_COMMAND} -E chdir ${stage} ${ARGN})
endfunction()
if(PYTHON)
  in_stage(${prefix}/bin/propagator data generate forecast/tiny -o long.npz
           -s plate.frames=68 -s data.cases=100)
  in_stage(${PYTHON} ${SOURCE}/examples/heat_solver_in_fortran/cut_windows.py
           long.npz windows.npz 16 13)
  set(data -s data.file=windows.npz)
endif()
in_stage(${prefix}/bin/propagator train forecast/tiny ${data}
         -s model.predicts=scaled_change -s model.scaling=case
         -s train.max_steps=600 -s train.validate_every=300 --runs ${stage}
         --name heat --threads 1)
run(${stage}/use_a_run_from_c/use_a_run_from_c ${stage}/heat)
expect("out  fields \\(8, 16, 8, 8\\): mean ")
file(GLOB library ${prefix}/lib*/libpropagator.so.0
                  ${prefix}/lib*/*/libpropagator.so.0)
get_filename_component(folder ${library} DIRECTORY)

# The same program without CMake.
set(ENV{PKG_CONFIG_PATH} ${folder}/pkgconfig)
run(pkg-config --cflags --libs propagator)
string(STRIP "${output}" flags)
separate_arguments(flags UNIX_COMMAND "${flags}")
run(cc -std=c99 ${SOURCE}/examples/use_a_run_from_c/main.c -o ${stage}/plain_c
    ${flags})
set(ENV{LD_LIBRARY_PATH} ${folder})
run(${stage}/plain_c ${stage}/heat)
expect("out  fields \\(8, 16, 8, 8\\): mean ")
unset(ENV{LD_LIBRARY_PATH})

find_program(GFORTRAN gfortran)
if(GFORTRAN AND PYTHON)
  build_example(heat_solver_in_fortran -DCMAKE_Fortran_COMPILER=${GFORTRAN})
  run(${stage}/heat_solver_in_fortran/heat_solver ${stage}/heat)
  expect("chained:.*steps a second of the surrogate:  +[0-9]+")
  message("${output}")

  # The module alone, in a program that wants floating-point traps.
  file(WRITE ${stage}/rod.yaml "task: solve
problem:
  domain: ['x in [0, 1]', 't in [0, 1]']
  fields: u
  equations: ['u_t = 0.1*u_xx']
  conditions: ['at t=0: u = sin(pi*x)', 'on x=0: u = 0', 'on x=1: u = 0']
points: {per_axis: 5, validation_per_axis: 3}
model: {name: pinn, width: 8}
train: {max_steps: 2}
report: {page: no}
")
  in_stage(${prefix}/bin/propagator train rod.yaml --runs ${stage} --threads 1)
  run(pkg-config --variable=fortran_module propagator)
  string(STRIP "${output}" module)
  run(${GFORTRAN} -std=f2018 -g -fcheck=all -ffpe-trap=invalid,zero,overflow
      -Wall -Wextra -Werror -Wno-compare-reals -Wno-maybe-uninitialized
      -J ${stage} ${module} ${SOURCE}/tests/capi/fortran_test.f90
      -o ${stage}/fortran_test ${flags} -Wl,-rpath,${folder})
  run(${stage}/fortran_test ${stage}/heat ${stage}/rod)
  expect("the Fortran module is good")
endif()
if(NOT GFORTRAN)
  without("gfortran")
endif()

if(PYTHON)
  run(${PYTHON} ${SOURCE}/examples/use_a_run_from_python/use_a_run.py
      ${stage}/heat ${library})
  expect("out  fields \\(8, 16, 8, 8\\): mean .*as expected: ")
endif()

# What the program says of itself.
set(in_bash "source ${prefix}/share/bash-completion/completions/propagator
  COMP_WORDS=(propagator LINE)
  COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
  _propagator
  echo -n \"\${COMPREPLY[*]}\"")
# As zsh itself finds it; what it would offer is compared here.
set(in_zsh "fpath=(${prefix}/share/zsh/vendor-completions \$fpath)
  autoload -Uz compinit && compinit -u -D
  [ \"\$_comps[propagator]\" = _propagator ] || exit 1
  autoload -Uz +X _propagator
  compadd() {
    shift
    print -n -- \${(M)@:#\$words[CURRENT]*}
  }
  _files() { }
  words=(propagator LINE) CURRENT=\$#words
  _propagator")
set(shells bash)
find_program(ZSH zsh)
if(ZSH)
  list(APPEND shells ${ZSH})
else()
  without("zsh")
endif()
foreach(shell ${shells})
  foreach(case "tr:train" "data:gen:generate" "train:--thr:--threads"
               "train:--no-such:")
    string(REGEX REPLACE ":[^:]*$" "" line "${case}")
    string(REGEX REPLACE "^.*:" "" answer "${case}")
    string(REPLACE ":" " " line "${line}")
    get_filename_component(name ${shell} NAME)
    string(REPLACE "LINE" "${line}" script "${in_${name}}")
    run(${shell} -c "${script}")
    expect("^${answer}\n?$")
  endforeach()
endforeach()
find_program(MAN man)
if(MAN)
  set(ENV{LC_ALL} C.UTF-8)
  run(${MAN} --warnings -l ${prefix}/share/man/man1/propagator.1)
  expect("SYNOPSIS.*--threads.*EXIT STATUS.*75 stopped on request")
  if(output MATCHES ": warning:")
    message(FATAL_ERROR "the manual page has faults:\n${output}")
  endif()
else()
  without("man")
endif()

# What a call costs, as docs/embedding.md says.
run(${CALL_COST} ${stage}/heat 200)
expect("\"c_us\".*\"direct_us\".*\"library_us\".*\"overhead_us\"")
message("${output}")
