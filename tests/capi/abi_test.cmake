# What a program that was compiled yesterday needs of libpropagator.so today: the
# symbols that it exports and what abi.c prints, line by line as in abi.txt. Who
# changes the interface on purpose writes that file again, with -DUPDATE=ON, and
# gives the library another SOVERSION unless a line was only added.

cmake_policy(VERSION 3.25)
execute_process(COMMAND ${NM} -D --defined-only --extern-only ${LIBRARY}
                OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${DESCRIBE}
                OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" names "${names}")
list(SORT names)
set(symbols "")
foreach(line ${names})
  string(REGEX REPLACE ".* " "" name "${line}")
  list(APPEND symbols "symbol ${name}\n")
endforeach()
list(SORT symbols)
list(JOIN symbols "" symbols)
string(PREPEND text "${symbols}")
if(UPDATE)
  file(WRITE ${EXPECTED} "${text}")
endif()
file(READ ${EXPECTED} expected)
if(NOT text STREQUAL expected)
  message(FATAL_ERROR "the interface is not that of ${EXPECTED}, but\n${text}")
endif()
