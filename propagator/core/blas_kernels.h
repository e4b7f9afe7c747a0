#pragma once

#include <string>

namespace propagator {

// OpenBLAS's name for the processors that its kernels, as it has chosen them,
// are for; empty where libtorch's products reach another BLAS.
std::string blas_kernels();

// Where OpenBLAS is older than the processor it does not know it, and takes
// kernels for one of 2004, many times slower. Chooses those for the
// instructions that the processor has, unless OPENBLAS_CORETYPE says which. For
// a program to call at its start, before there are other threads; a library
// that others link leaves OpenBLAS to them.
void choose_blas_kernels();

}  // namespace propagator
