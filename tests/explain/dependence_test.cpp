#include "propagator/explain/dependence.h"

#include "small_heat_former.h"
#include "testing.h"

namespace propagator::explain {
namespace {

using propagator::testing::random;

// Output i is the running sum of inputs 0 … i.
tasks::AuditSubject running_sum() {
  return {.inputs = random({1, 10, 3, 3}, "inputs"),
          .forward = [](const torch::Tensor& x) { return x.cumsum(1); },
          .first_hidden = [](int64_t output) { return output + 1; }};
}

TEST(ExplainDependence, ASumDependsOnWhatItAdds) {
  const auto found = find_dependence(running_sum(), 0);
  ASSERT_EQ(found.outputs.size(), 10u);
  const auto seen = found.gradients > 0;
  EXPECT_TRUE(torch::equal(seen, torch::ones({10, 10}, torch::kBool).tril()));
  EXPECT_EQ(found.hidden[3], 4);
}

TEST(ExplainDependence, SampledOutputsIncludeFirstAndLast) {
  const auto found = find_dependence(running_sum(), 0, 3);
  EXPECT_EQ(found.outputs, (std::vector<int64_t>{0, 4, 9}));
}

// The picture's numbers: what output i takes from input i.
TEST(ExplainDependence, TheDiagonalIsThereInAPublishedModelOnly) {
  for (const auto inputs :
       {models::Inputs::kHonest, models::Inputs::kPublished}) {
    for (const auto mask :
         {models::MaskType::kBlock, models::MaskType::kCausal}) {
      const auto model = propagator::testing::make_heat_former(
          propagator::testing::small_options(mask, inputs), {12, 5, 5});
      const auto alpha = torch::full({1}, 0.05, torch::kFloat64);
      const auto found = find_dependence(
          {.inputs = random({1, 12, 5, 5}, "frames"),
           .forward =
               [&](const torch::Tensor& frames) {
                 return model->forward(frames, alpha);
               },
           .first_hidden =
               [&](int64_t output) { return model->first_hidden(output); }},
          0);
      ASSERT_EQ(found.outputs.size(), 12u);
      for (int64_t k = 3; k < 12; ++k) {
        const auto hidden = found.gradients[k].slice(0, found.hidden[k]);
        const double own = found.gradients[k][k].item<double>();
        if (inputs == models::Inputs::kPublished) {
          EXPECT_GT(own, 1e-4) << k;
        } else {
          EXPECT_EQ(own, 0) << k;
          EXPECT_EQ(hidden.abs().sum().item<double>(), 0) << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace propagator::explain
