#pragma once

namespace propagator::cli {

// OpenBLAS chooses its kernels by the processor's model, and takes for one that
// is newer than itself those of 2004, without AVX, which are several times
// slower. Where it would, the name of kernels that this processor's instructions
// allow, for kBlasKernels; else null.
const char* better_blas_kernels();

// The environment variable in which OpenBLAS is told, before it is loaded.
inline constexpr const char* kBlasKernels = "OPENBLAS_CORETYPE";

}  // namespace propagator::cli
