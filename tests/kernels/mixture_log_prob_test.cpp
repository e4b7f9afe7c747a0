#include "propagator/kernels/mixture_log_prob.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;

constexpr double kMostLogWidth = 7;

// The logs, and the gradients by raw and x.
std::vector<Tensor> results(Tensor (*map)(const Tensor&, const Tensor&,
                                          const Tensor&, double),
                            const Tensor& raw, const Tensor& x,
                            const Tensor& places) {
  const auto a = raw.detach().requires_grad_(), b = x.detach().requires_grad_();
  const auto value = map(a, b, places, kMostLogWidth);
  auto all = torch::autograd::grad(
      {value}, {a, b},
      {torch::linspace(-1, 1, x.numel(), raw.options()).view(x.sizes())});
  all.push_back(value);
  return all;
}

TEST(KernelsMixtureLogProb, IsThatOfPlainOperationsWithItsGradients) {
  for (const int64_t count : {1, 3, 8}) {
    const auto raw = 6 * random({70, 2, 3 * count}, "raw");
    const auto x = 4 * random({70, 2}, "x");
    const auto places = torch::linspace(-2, 2, count, torch::kFloat64);
    const auto plain = results(mixture_log_prob_reference, raw, x, places);
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      const double part = type == torch::kFloat64 ? 1e-11 : 3e-5;
      const auto found =
          results(mixture_log_prob, raw.to(type), x.to(type), places.to(type));
      for (size_t n = 0; n < plain.size(); ++n) {
        EXPECT_TRUE(near(found[n].to(torch::kFloat64), plain[n], {part, part}))
            << n << " of " << count << " components";
      }
    }
  }
}

TEST(KernelsMixtureLogProb, OneComponentIsANormalDistribution) {
  const auto raw = torch::tensor({{5.0, 0.25, 0.0}}, torch::kFloat64);
  const auto x = torch::tensor({1.75}, torch::kFloat64);
  const auto places = torch::tensor({0.5}, torch::kFloat64);
  // (1.75 - 0.75)² / 2 and half the log of 2 π.
  EXPECT_NEAR(mixture_log_prob(raw, x, places, kMostLogWidth).item<double>(),
              -0.5 - 0.9189385332046727, 1e-14);
}

TEST(KernelsMixtureLogProb, FarAwayItIsFinite) {
  const auto raw = torch::zeros({1, 6});
  const auto places = torch::tensor({-2.0f, 2.0f});
  const auto far =
      mixture_log_prob(raw, torch::tensor({1e4f}), places, kMostLogWidth);
  EXPECT_NEAR(far.item<double>(), -0.5 * 9998.0 * 9998.0, 100);
}

}  // namespace
}  // namespace propagator::kernels
