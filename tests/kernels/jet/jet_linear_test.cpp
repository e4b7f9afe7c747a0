#include "propagator/kernels/jet/jet_linear.h"

#include <torch/autograd.h>

#include "propagator/kernels/jet/jet_wavelet.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::near;
using torch::Tensor;

constexpr JetOrders kOrders{3, 2};

// The output and the gradients of all inputs, for one and the same dy.
std::vector<Tensor> run(const std::vector<Tensor>& inputs, const Tensor& y) {
  const auto dy = testing::random(y.sizes(), "dy").to(y.options());
  auto all = torch::autograd::grad({(y * dy).sum()}, inputs);
  all.push_back(y);
  return all;
}

void expect_same(const std::vector<Tensor>& ours,
                 const std::vector<Tensor>& plain, torch::ScalarType type) {
  // Sums over a thousand numbers round more than one of them.
  const auto tolerance = type == torch::kFloat64
                             ? testing::kFloat64
                             : testing::Tolerance{1e-5, 1e-4};
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(near(ours[i].cpu(), plain[i].cpu(), tolerance))
        << i << " on " << ours[i].device();
  }
}

// Calls `check(type, make)` for every device and type, where make(sizes, name)
// is a random input.
template <class Check>
void everywhere(const Check& check) {
  for (const auto& device : testing::devices()) {
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      check(type, [&](torch::IntArrayRef sizes, const char* name) {
        return testing::random(sizes, name).to(device, type).requires_grad_();
      });
    }
  }
}

void expect_linear(int64_t inputs, int64_t outputs) {
  everywhere([&](auto type, const auto& make) {
    const std::vector<Tensor> in{make({kOrders.rows(), 37, 5, inputs}, "rows"),
                                 make({outputs, inputs}, "weight"),
                                 make({outputs}, "bias")};
    expect_same(run(in, jet_linear(in[0], in[1], in[2])),
                run(in, jet_linear_reference(in[0], in[1], in[2])), type);
  });
}

// Widths that CUDA has a kernel for, and some that it has not.
TEST(KernelsJetLinear, AgreesWithReference) {
  expect_linear(12, 28);
  expect_linear(32, 28);
  expect_linear(32, 32);
  expect_linear(32, 64);
}

TEST(KernelsJetLinear, PointsNeedNoGradient) {
  everywhere([](auto type, const auto& make) {
    for (const int64_t inputs : {2, 32}) {
      const auto rows = make({3, 37, inputs}, "rows").detach();
      const std::vector<Tensor> in{make({32, inputs}, "weight"),
                                   make({32}, "bias")};
      expect_same(run(in, jet_linear(rows, in[0], in[1])),
                  run(in, jet_linear_reference(rows, in[0], in[1])), type);
    }
  });
}

void expect_wavelet_linear(int64_t width, int64_t outputs,
                           const JetOrders& orders) {
  everywhere([&](auto type, const auto& make) {
    const std::vector<Tensor> in{make({orders.rows(), 37, width}, "rows"),
                                 make({1}, "w1"), make({1}, "w2"),
                                 make({outputs, width}, "weight"),
                                 make({outputs}, "bias")};
    const auto ours =
        jet_wavelet_linear(in[0], in[1], in[2], in[3], in[4], orders);
    const auto plain = jet_linear_reference(
        jet_wavelet_reference(in[0], in[1], in[2], orders), in[3], in[4]);
    expect_same(run(in, ours), run(in, plain), type);
  });
}

// A width that the kernel reads in packs, and one that it cannot.
TEST(KernelsJetWaveletLinear, AgreesWithReference) {
  for (const int64_t width : {16, 7}) {
    expect_wavelet_linear(width, 9, kOrders);
    expect_wavelet_linear(width, 9, {3, 2, true, 0b10});
  }
}

// One number for each token; CUDA has a kernel for some of these widths.
TEST(KernelsJetWaveletLinear, AgreesWithReferenceWhereItEndsInOneNumber) {
  for (const int64_t width : {7, 128, 256, 512}) {
    expect_wavelet_linear(width, 1, kOrders);
    expect_wavelet_linear(width, 1, {3, 2, true, 0b10});
    expect_wavelet_linear(width, 1, {2, 0});
  }
}

}  // namespace
}  // namespace propagator::kernels
