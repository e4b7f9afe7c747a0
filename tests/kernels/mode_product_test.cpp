#include "propagator/kernels/mode_product.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/kernels/axis_product.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;

struct Shape {
  int64_t modes, rows, in, out;
};
// Whole vectors and not, one of everything, more rows than a tile has.
const std::vector<Shape> kShapes{
    {1, 1, 1, 1}, {3, 2, 4, 8}, {2, 5, 3, 7}, {4, 13, 20, 20}, {2, 1, 17, 2}};

TEST(KernelsModeProduct, IsAComplexProductOfEachMode) {
  for (const auto& s : kShapes) {
    const auto x = random({s.modes, s.rows, s.in, 2}, "x"),
               w = random({s.modes, s.in, s.out, 2}, "w");
    // By hand, of one number.
    const auto a = x[s.modes - 1][s.rows - 1], r = w[s.modes - 1].select(1, 0);
    const auto real = (a.select(1, 0) * r.select(1, 0)).sum() -
                      (a.select(1, 1) * r.select(1, 1)).sum();
    const auto imaginary = (a.select(1, 0) * r.select(1, 1)).sum() +
                           (a.select(1, 1) * r.select(1, 0)).sum();
    const auto y = mode_product(x, w);
    ASSERT_EQ(y.sizes(), (std::vector<int64_t>{s.modes, s.rows, s.out, 2}));
    EXPECT_TRUE(near(y[s.modes - 1][s.rows - 1][0],
                     torch::stack({real, imaginary}), {1e-12, 1e-13}));
    EXPECT_TRUE(near(y, mode_product_reference(x, w), {1e-12, 1e-13}));
    const auto single =
        mode_product(x.to(torch::kFloat32), w.to(torch::kFloat32));
    EXPECT_TRUE(near(single.to(torch::kFloat64), y, {1e-5, 1e-5}));
  }
}

// What a product in bf16 gives is multiplied as the weights are.
TEST(KernelsModeProduct, TakesHalfPrecision) {
  const auto x = random({3, 2, 4, 2}, "x").to(torch::kBFloat16);
  const auto w = random({3, 4, 8, 2}, "w").to(torch::kFloat32);
  const auto y = mode_product(x, w);
  EXPECT_EQ(y.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(near(y, mode_product(x.to(torch::kFloat32), w), {1e-5, 1e-5}));
}

TEST(KernelsModeProduct, GradientsAreRight) {
  for (const auto& s : kShapes) {
    const auto x = random({s.modes, s.rows, s.in, 2}, "x"),
               w = random({s.modes, s.in, s.out, 2}, "w");
    EXPECT_TRUE(testing::gradient_is_right(
        [&](const Tensor& v) { return mode_product(v, w).pow(3).sum(); }, x,
        {1e-5, 1e-7}));
    EXPECT_TRUE(testing::gradient_is_right(
        [&](const Tensor& v) { return mode_product(x, v).pow(3).sum(); }, w,
        {1e-5, 1e-7}));
  }
}

// As a spectral convolution gives it: a view, with gradients of both at once.
TEST(KernelsModeProduct, TakesViews) {
  auto x = random({4, 5, 3, 2}, "x").set_requires_grad(true);
  auto w = random({5, 3, 6, 2}, "w").set_requires_grad(true);
  const auto way = random({5, 4, 6, 2}, "way");
  const auto gradients = [&](auto product) {
    return torch::autograd::grad({(product(x.transpose(0, 1), w) * way).sum()},
                                 {x, w});
  };
  const auto ours = gradients(mode_product);
  const auto plain = gradients(mode_product_reference);
  for (size_t n = 0; n < 2; ++n) {
    EXPECT_TRUE(near(ours[n], plain[n], {1e-12, 1e-13}));
  }
}

// Whole vectors of numbers behind the axis, and not.
TEST(KernelsAxisProduct, IsAProductOfEachBlock) {
  for (const int64_t inner : {16, 48, 5}) {
    const auto m = random({7, 9}, "m"), x = random({3, 9, inner}, "x");
    const auto y = axis_product(m, x);
    ASSERT_EQ(y.sizes(), (std::vector<int64_t>{3, 7, inner}));
    EXPECT_TRUE(near(y, torch::einsum("mn,bni->bmi", {m, x}), {1e-12, 1e-13}));
    EXPECT_TRUE(near(y, axis_product_reference(m, x), {1e-12, 1e-13}));
    EXPECT_TRUE(near(axis_product(m.to(torch::kFloat32), x.to(torch::kFloat32))
                         .to(torch::kFloat64),
                     y, {1e-5, 1e-5}));
    EXPECT_TRUE(testing::gradient_is_right(
        [&](const Tensor& v) { return axis_product(m, v).pow(3).sum(); }, x,
        {1e-5, 1e-7}));
  }
}

}  // namespace
}  // namespace propagator::kernels
