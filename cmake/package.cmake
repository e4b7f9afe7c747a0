# `cpack` makes three Debian packages of what is installed; scripts/package does it
# with a build for any CPU of this kind.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "propagator's maintainers <propagator@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program library dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME propagator)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "${PROJECT_DESCRIPTION}\nThe program, its configurations and its documentation.")
# A BLAS that is many times faster than the reference; figures and animations.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS
    "libopenblas0-openmp, gnuplot-nox, fonts-dejavu-core, ffmpeg")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS openmpi-bin)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libpropagator0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS libopenblas0-openmp)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
    "Trained transformers for physics as C functions\nThe shared library.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libpropagator-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libpropagator0 (= ${PROJECT_VERSION})")
# What the C++ interface is compiled with; C and Fortran need none of it.
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS
    "libtorch-dev, libyaml-cpp-dev, nlohmann-json3-dev, libfmt-dev, libspdlog-dev, libhdf5-dev")
set(CPACK_COMPONENT_DEV_DESCRIPTION
    "Headers, Fortran module and C++ library of propagator\nFor programs that embed a trained run.")
include(CPack)
