#include "propagator/cli/blas_kernels.h"

namespace propagator::cli {

const char* better_blas_kernels() { return nullptr; }

}  // namespace propagator::cli
