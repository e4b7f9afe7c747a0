# What the library stands on; also read by find_package(propagator). Required:
# libtorch, OpenMP, yaml-cpp, nlohmann-json, fmt, spdlog and HDF5. Used when found:
# libzip, for .npz files; matio, for .mat files; libpng, for pictures.

find_package(Torch REQUIRED)
if(TARGET torch_cuda)
  find_package(CUDAToolkit REQUIRED)  # cuBLAS, for products with an epilogue
endif()
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
if(NOT CMAKE_C_COMPILER_LOADED)
  enable_language(C)  # for HDF5, in a project of C++ alone
endif()
find_package(HDF5 REQUIRED COMPONENTS C)
# libtorch's parallel_for is a header: without OpenMP in our own compilation it
# would quietly run on one thread.
find_package(OpenMP REQUIRED COMPONENTS CXX)

# A header-only library: by its own package or, where a system has only the
# headers, by those.
macro(propagator_header_only package target header)
  find_package(${package} QUIET)
  if(NOT TARGET ${target})
    find_path(${package}_HEADERS ${header} REQUIRED)
    add_library(${target} INTERFACE IMPORTED)
    target_include_directories(${target} INTERFACE ${${package}_HEADERS})
  endif()
endmacro()
propagator_header_only(nlohmann_json nlohmann_json::nlohmann_json
                       nlohmann/json.hpp)

find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(LIBZIP QUIET IMPORTED_TARGET libzip)
  pkg_check_modules(MATIO QUIET IMPORTED_TARGET matio)
endif()
# The first version that writes a picture to memory.
find_package(PNG 1.6.22 QUIET)

# yaml-cpp got this name in 0.8.
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp INTERFACE IMPORTED)
  target_link_libraries(yaml-cpp::yaml-cpp INTERFACE yaml-cpp)
endif()

# libtorch and HDF5 as targets with system headers, so that warnings are ours.
if(NOT TARGET propagator::torch)
  add_library(propagator::torch INTERFACE IMPORTED)
  # libtorch 2 carries headers of its own fmt among its others; spdlog and we
  # mean the system's, so those go first.
  set(FMT_FIRST "")
  if(EXISTS "${TORCH_INSTALL_PREFIX}/include/fmt")
    find_path(FMT_HEADERS fmt/format.h
              PATHS /usr/include /usr/local/include NO_DEFAULT_PATH REQUIRED)
    set(FMT_FIRST ${CMAKE_BINARY_DIR}/system-fmt)
    file(MAKE_DIRECTORY ${FMT_FIRST})
    file(CREATE_LINK ${FMT_HEADERS}/fmt ${FMT_FIRST}/fmt SYMBOLIC)
  endif()
  target_include_directories(propagator::torch SYSTEM INTERFACE
                             ${FMT_FIRST} ${TORCH_INCLUDE_DIRS})
  # Some builds of libtorch export a std::filesystem of an older compiler; the
  # one of libstdc++ is found first when it comes first.
  target_link_libraries(propagator::torch INTERFACE stdc++ ${TORCH_LIBRARIES}
                        OpenMP::OpenMP_CXX)
  separate_arguments(TORCH_FLAGS UNIX_COMMAND "${TORCH_CXX_FLAGS}")
  target_compile_options(propagator::torch INTERFACE ${TORCH_FLAGS})

  add_library(propagator::hdf5 INTERFACE IMPORTED)
  target_include_directories(propagator::hdf5 SYSTEM INTERFACE
                             ${HDF5_INCLUDE_DIRS})
  target_link_libraries(propagator::hdf5 INTERFACE ${HDF5_LIBRARIES})
endif()
