#include "propagator/autodiff/jet_memo.h"

#include "testing.h"

namespace propagator::autodiff {
namespace {

using propagator::testing::random;
using torch::Tensor;

TEST(AutodiffJetMemo, ComputesOncePerSetOfPoints) {
  JetMemo<Tensor> memo;
  int made = 0;
  const auto ask = [&](const Tensor& points) {
    return memo.of(Jet::constant(points), [&] {
      ++made;
      return points * 2;
    });
  };
  auto inside = random({7, 1, 2}, "inside");
  const auto face = random({3, 1, 2}, "face");
  const auto expected = inside * 2;
  for (int n = 0; n < 3; ++n) {
    EXPECT_TRUE(torch::equal(ask(inside), expected));
    EXPECT_TRUE(torch::equal(ask(face), face * 2));
  }
  EXPECT_EQ(made, 2);
  // Drawn again in place, and of another type.
  inside.add_(1);
  EXPECT_TRUE(torch::equal(ask(inside), inside * 2));
  EXPECT_EQ(ask(inside.to(torch::kFloat32)).scalar_type(), torch::kFloat32);
  EXPECT_EQ(made, 4);
  // Points that gradients are asked of are not kept, nor are too many.
  ask(inside.clone().set_requires_grad(true));
  EXPECT_EQ(made, 5);
  for (int n = 0; n < 50; ++n) ask(inside + n + 1);
  EXPECT_EQ(made, 55);
  ask(face);
  EXPECT_EQ(made, 56);
  memo.forget();
  ask(face);
  EXPECT_EQ(made, 57);
}

}  // namespace
}  // namespace propagator::autodiff
