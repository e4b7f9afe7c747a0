#include "propagator/core/blas_kernels.h"

#include <torch/types.h>

#include "testing.h"

namespace propagator {
namespace {

// Where OpenBLAS knows the processor there was nothing to choose.
TEST(CoreBlasKernels, AreForThisProcessor) {
  choose_blas_kernels();
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_NE(blas_kernels(), "Prescott");
  }
#endif
  const auto a = testing::random({70, 90}, "a"),
             b = testing::random({90, 50}, "b");
  const auto sum = (a.unsqueeze(2) * b.unsqueeze(0)).sum(1);
  EXPECT_TRUE(testing::near(torch::matmul(a, b), sum, testing::kFloat64));
  const auto in_float32 =
      torch::matmul(a.to(torch::kFloat32), b.to(torch::kFloat32));
  EXPECT_TRUE(testing::near(in_float32.to(torch::kFloat64), sum,
                            testing::Tolerance{1e-5, 1e-5}));
}

}  // namespace
}  // namespace propagator
