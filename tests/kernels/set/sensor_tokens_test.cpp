#include "propagator/kernels/set/sensor_tokens.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::gradient_is_right;
using testing::near;
using testing::random;
using torch::Tensor;

// Three events of four sensors, tokens of six numbers.
Tensor times() { return 5 * random({3, 4}, "times"); }
Tensor table() { return random({5, 6}, "table"); }
Tensor weight() { return random({6}, "weight"); }

TEST(KernelsSensorTokens, AreThoseOfPlainOperations) {
  for (const auto& offset : {random({6}, "offset"), random({4, 6}, "offset")}) {
    const auto expected =
        sensor_tokens_reference(times(), table(), weight(), offset);
    EXPECT_TRUE(near(sensor_tokens(times(), table(), weight(), offset),
                     expected, testing::kFloat64));
    const auto type = torch::kFloat32;
    EXPECT_TRUE(near(sensor_tokens(times().to(type), table().to(type),
                                   weight().to(type), offset.to(type)),
                     expected, testing::kFloat32));
  }
}

TEST(KernelsSensorTokens, GradientIsThatOfDifferences) {
  const auto sum = [](const Tensor& tokens) {
    return (tokens * random({3, 5, 6}, "cotangent")).sum();
  };
  for (const auto& offset : {random({6}, "offset"), random({4, 6}, "offset")}) {
    EXPECT_TRUE(gradient_is_right(
        [&](const Tensor& x) {
          return sum(sensor_tokens(x, table(), weight(), offset));
        },
        times()));
    EXPECT_TRUE(gradient_is_right(
        [&](const Tensor& x) {
          return sum(sensor_tokens(times(), x, weight(), offset));
        },
        table()));
    EXPECT_TRUE(gradient_is_right(
        [&](const Tensor& x) {
          return sum(sensor_tokens(times(), table(), x, offset));
        },
        weight()));
    EXPECT_TRUE(gradient_is_right(
        [&](const Tensor& x) {
          return sum(sensor_tokens(times(), table(), weight(), x));
        },
        offset));
  }
}

}  // namespace
}  // namespace propagator::kernels
