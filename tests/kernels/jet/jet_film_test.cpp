#include "propagator/kernels/jet/jet_film.h"

#include <torch/autograd.h>

#include "propagator/autodiff/jet.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using torch::Tensor;

constexpr double kFrequency = 3;

// A layout and a number of features: whole vectors, or some left over.
struct Case {
  JetLayout layout;
  int64_t features;
};

class KernelsJetFilm : public ::testing::TestWithParam<Case> {};

Tensor in_plain_operations(const Tensor& x, const Tensor& film,
                           const Case& of) {
  const Jet all(film, of.layout);
  const auto part = [&](int64_t n) {
    return autodiff::narrow(all, -1, n * of.features, of.features);
  };
  const auto z = part(2) * (part(0) * Jet(x, of.layout) + part(1)) * kFrequency;
  const auto value = z.value();
  const auto s = torch::sin(value), c = torch::cos(value);
  return autodiff::compose(z, {s, c, -s / 2}).rows();
}

// Value and both gradients, on every device, against the plain operations in
// float64: what float32 rounds is of the size of the largest terms.
TEST_P(KernelsJetFilm, AgreesWithPlainOperations) {
  const auto& of = GetParam();
  const auto random = [&](int64_t features, const char* name) {
    return testing::random({of.layout.rows(), 5, 7, features}, name);
  };
  const std::vector<Tensor> drawn{random(of.features, "x"),
                                  random(3 * of.features, "film"),
                                  random(of.features, "weights")};
  const auto run = [&](const torch::TensorOptions& options, const auto& f) {
    const auto x = drawn[0].to(options).requires_grad_();
    const auto film = drawn[1].to(options).requires_grad_();
    const auto y = f(x, film);
    auto all =
        torch::autograd::grad({(y * drawn[2].to(options)).sum()}, {x, film});
    all.push_back(y);
    return all;
  };
  const auto plain =
      run(torch::kFloat64, [&](const Tensor& x, const Tensor& film) {
        return in_plain_operations(x, film, of);
      });
  for (const auto& device : testing::devices()) {
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      const auto ours =
          run(torch::TensorOptions(type).device(device),
              [&](const Tensor& x, const Tensor& film) {
                return jet_film(x, film, kFrequency, of.layout.orders());
              });
      const double unit = type == torch::kFloat64 ? 1e-13 : 1e-6;
      for (size_t i = 0; i < ours.size(); ++i) {
        const double largest = plain[i].abs().max().item<double>();
        EXPECT_TRUE(testing::near(ours[i].cpu().to(torch::kFloat64), plain[i],
                                  {0, unit * largest}))
            << i << " on " << device << " in " << type;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, KernelsJetFilm,
    ::testing::Values(Case{JetLayout({1}), 8}, Case{JetLayout({1, 1}), 19},
                      Case{JetLayout({2, 1}), 16}, Case{JetLayout({2, 2}), 3},
                      Case{JetLayout({2, 2, 1}), 33},
                      Case{JetLayout::summed({2, 2, 1}, {1, 1}), 16},
                      Case{JetLayout::summed({2, 2}, {1, -1}), 21}));

}  // namespace
}  // namespace propagator::kernels
