# What the library stands on. libtorch, yaml-cpp, CLI11, nlohmann-json, fmt,
# spdlog and HDF5 are required; libzip (for .npz files) is used when found.

find_package(Torch REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(HDF5 REQUIRED COMPONENTS C)

# Header-only libraries: by their own package, or where a system has only the
# headers, by those.
function(propagator_header_only package target header)
  find_package(${package} QUIET)
  if(NOT TARGET ${target})
    find_path(${package}_HEADERS ${header} REQUIRED)
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${target} INTERFACE ${${package}_HEADERS})
  else()
    set_target_properties(${target} PROPERTIES IMPORTED_GLOBAL TRUE)
  endif()
endfunction()
propagator_header_only(CLI11 CLI11::CLI11 CLI/CLI.hpp)
propagator_header_only(nlohmann_json nlohmann_json::nlohmann_json
                       nlohmann/json.hpp)

find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(LIBZIP QUIET IMPORTED_TARGET libzip)
endif()

# yaml-cpp renamed its target in 0.8.
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp INTERFACE IMPORTED)
  target_link_libraries(yaml-cpp::yaml-cpp INTERFACE yaml-cpp)
endif()

# libtorch and HDF5 as system headers, so that our warnings are ours.
add_library(propagator_torch INTERFACE)
target_include_directories(propagator_torch SYSTEM INTERFACE
                           ${TORCH_INCLUDE_DIRS})
target_link_libraries(propagator_torch INTERFACE ${TORCH_LIBRARIES})
separate_arguments(TORCH_FLAGS UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(propagator_torch INTERFACE ${TORCH_FLAGS})
add_library(propagator_hdf5 INTERFACE)
target_include_directories(propagator_hdf5 SYSTEM INTERFACE
                           ${HDF5_INCLUDE_DIRS})
target_link_libraries(propagator_hdf5 INTERFACE ${HDF5_LIBRARIES})
