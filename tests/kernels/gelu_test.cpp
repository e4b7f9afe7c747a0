#include "propagator/kernels/gelu.h"

#include <torch/utils.h>

#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;

TEST(KernelsGelu, IsThatOfTheLibrary) {
  for (const auto& device : testing::devices()) {
    const auto x = torch::linspace(-14, 14, 20001, torch::kFloat64).to(device);
    EXPECT_TRUE(near(kernels::gelu(x), torch::gelu(x), {1e-12, 1e-14}))
        << device;
    const auto single = x.to(torch::kFloat32);
    // On CUDA it is the library's, which loses digits where it is near zero.
    const double absolute = device.is_cpu() ? 1e-7 : 1e-6;
    EXPECT_TRUE(near(kernels::gelu(single).to(torch::kFloat64),
                     torch::gelu(single.to(torch::kFloat64)), {2e-6, absolute}))
        << device;
  }
}

TEST(KernelsGelu, GradientsAreRight) {
  EXPECT_TRUE(testing::gradient_is_right(
      [](const Tensor& x) { return kernels::gelu(x).square().sum(); },
      3 * random({7, 5}, "x"), {1e-6, 1e-8}));
  // Of a part that is not contiguous, in float32, beside the library's.
  const auto whole = (3 * random({9, 8}, "whole")).to(torch::kFloat32);
  const auto slope_of = [&](auto function) {
    auto x = whole.clone().set_requires_grad(true);
    function(x.t().slice(0, 1, 8, 2)).square().sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(near(slope_of([](const Tensor& x) { return kernels::gelu(x); }),
                   slope_of([](const Tensor& x) { return torch::gelu(x); }),
                   {1e-5, 1e-6}));
}

TEST(KernelsGelu, NothingIsKeptWhereNobodyWantsGradients) {
  const auto x = random({4}, "x");
  EXPECT_FALSE(kernels::gelu(x).requires_grad());
  EXPECT_EQ(kernels::gelu(torch::zeros({0, 3})).sizes(),
            (std::vector<int64_t>{0, 3}));
  auto wanted = x.clone().set_requires_grad(true);
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(kernels::gelu(wanted).requires_grad());
}

}  // namespace
}  // namespace propagator::kernels
