#include <gtest/gtest.h>

#include "propagator/core/blas_kernels.h"

// Products as fast as the program's, and with its bits.
int main(int argc, char** argv) {
  propagator::choose_blas_kernels();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
