#include "propagator/train/optimizer.h"

#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/train/schedule.h"
#include "testing.h"

namespace propagator::train {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;

torch::nn::Linear make_module() {
  torch::nn::Linear module(3, 2);
  module->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  module->weight.copy_(random({2, 3}, "weight"));
  module->bias.copy_(random({2}, "bias"));
  return module;
}

TEST(TrainFlatParameters, AModuleMayHaveNothingToTrain) {
  torch::nn::Module module;
  module.register_parameter("fitted", torch::ones({3}), false);
  FlatParameters flat(module);
  EXPECT_EQ(flat.values().numel(), 0);
  flat.add_gradient_of(torch::ones({}), 1);
  for (const auto kind :
       {OptimizerKind::kAdam, OptimizerKind::kLamb, OptimizerKind::kMuon}) {
    Optimizer optimizer({.kind = kind}, flat);
    optimizer.begin_step(0.1);
    EXPECT_EQ(optimizer.apply({}).item<double>(), 0);
  }
}

TEST(TrainFlatParameters, ModuleAndBufferShareMemory) {
  auto module = make_module();
  const auto before = module->weight.detach().clone();
  FlatParameters flat(*module);
  EXPECT_TRUE(torch::equal(module->weight.detach(), before));
  flat.values().fill_(2);
  EXPECT_EQ(module->weight.sum().item<double>(), 12);
  const auto x = torch::ones({1, 3}, torch::kFloat64);
  module->forward(x).sum().backward();
  // Six weights, two zeros before the bias, which begins at a multiple of 4.
  EXPECT_TRUE(torch::equal(
      flat.gradients(),
      torch::tensor({1, 1, 1, 1, 1, 1, 0, 0, 1, 1}, torch::kFloat64)));
  module->forward(x).sum().backward();  // gradients accumulate
  EXPECT_EQ(flat.gradients().sum().item<double>(), 16);
}

// `steps` updates with the gradient of Σ (w - 1)² computed by hand.
torch::Tensor run(const OptimizerOptions& options, int steps, double lr,
                  double scale = 1) {
  auto module = make_module();
  FlatParameters flat(*module, {}, Optimizer::order_for(options.kind));
  Optimizer optimizer(options, flat);
  for (int n = 0; n < steps; ++n) {
    flat.gradients().copy_(2 * (flat.values() - 1));
    optimizer.begin_step(lr / (1 + 0.01 * n));
    optimizer.apply({.share = scale});  // LAMB's step has no end
  }
  std::vector<torch::Tensor> values;
  for (const auto& [name, offset, size] : flat.segments()) {
    values.push_back(flat.values().narrow(0, offset, size));
  }
  return torch::cat(values);
}

TEST(TrainOptimizer, AdamTwoStepsByHand) {
  OptimizerOptions options;
  double w = make_module()->weight[0][0].item<double>(), m = 0, v = 0;
  for (int n = 1; n <= 2; ++n) {
    const double g = 2 * (w - 1);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    w -= 0.1 / (1 + 0.01 * (n - 1)) * (m / (1 - std::pow(0.9, n))) /
         (std::sqrt(v / (1 - std::pow(0.999, n))) + 1e-8);
  }
  EXPECT_NEAR(run(options, 2, 0.1)[0].item<double>(), w, 1e-12);
}

TEST(TrainOptimizer, LambScalesByTheTensorsNorms) {
  OptimizerOptions options;
  options.kind = OptimizerKind::kLamb;
  options.weight_decay = 0.01;
  const auto weight = make_module()->weight.detach().flatten();
  const auto g = 2 * (weight - 1);
  const auto direction = g / (g.abs() + 1e-8) + 0.01 * weight;
  const auto expected =
      weight - 0.1 * direction * (weight.norm() / direction.norm());
  EXPECT_TRUE(near(run(options, 1, 0.1).slice(0, 0, 6), expected, kFloat64));
}

TEST(TrainOptimizer, EveryKindFindsTheMinimum) {
  for (const auto kind : {OptimizerKind::kAdam, OptimizerKind::kAdamW,
                          OptimizerKind::kLamb, OptimizerKind::kMuon}) {
    OptimizerOptions options;
    options.kind = kind;
    const auto w = run(options, 2000, 0.05);
    EXPECT_TRUE(near(w, torch::ones_like(w), {0, 0.02}));
  }
}

TEST(TrainOptimizer, WithoutBiasCorrectionTheFirstStepIsLarger) {
  OptimizerOptions options;
  options.bias_correction = false;
  const auto start = make_module()->weight[0][0].item<double>();
  const double moved = std::abs(run(options, 1, 0.1)[0].item<double>() - start);
  EXPECT_NEAR(moved, 0.1 * 0.1 / std::sqrt(0.001), 1e-6);
}

class TrainOptimizerState : public ::testing::TestWithParam<OptimizerKind> {};

TEST_P(TrainOptimizerState, RestoredGoesOnToTheSameBits) {
  const OptimizerOptions options{.kind = GetParam()};
  auto module = make_module();
  FlatParameters flat(*module, {}, Optimizer::order_for(options.kind));
  Optimizer first(options, flat);
  const auto step = [&](Optimizer& optimizer) {
    flat.gradients().copy_(2 * (flat.values() - 1));
    optimizer.begin_step(0.1);
    optimizer.apply({});
  };
  step(first), step(first);
  const auto weights = flat.values().clone();
  std::map<std::string, torch::Tensor> state;
  for (const auto& [name, value] : first.state()) state[name] = value.clone();
  step(first);
  const auto expected = flat.values().clone();
  flat.values().copy_(weights);
  Optimizer second(options, flat);
  second.restore(state, 2);
  step(second);
  EXPECT_TRUE(torch::equal(flat.values(), expected));
  state["m"] = torch::zeros({3});
  EXPECT_THROW(second.restore(state, 2), DataError);
}
INSTANTIATE_TEST_SUITE_P(Kinds, TrainOptimizerState,
                         ::testing::Values(OptimizerKind::kAdam,
                                           OptimizerKind::kLamb,
                                           OptimizerKind::kMuon));

TEST(TrainOptimizer, DecayIsRefusedWhereThereIsNone) {
  for (const auto kind : {OptimizerKind::kAdam, OptimizerKind::kLbfgs}) {
    OptimizerOptions options{.kind = kind};
    EXPECT_NO_THROW(options.validate());
    options.weight_decay = 0.1;
    EXPECT_THROW(options.validate(), ConfigError);
  }
}

TEST(TrainSchedule, DocumentsTables) {
  ScheduleOptions o;
  o.kind = ScheduleKind::kPublished;
  const auto rate = [&](int64_t epoch) {
    return learning_rate(o, 0, epoch, 100);
  };
  for (const auto& [epoch, lr] :
       std::vector<std::pair<int64_t, double>>{{1, 0},
                                               {2, 1e-5},
                                               {3, 1e-4},
                                               {4, 5e-4},
                                               {5, 1e-3},
                                               {30, 1e-3},
                                               {31, 5e-4},
                                               {40, 5e-4},
                                               {41, 1e-4},
                                               {100, 1e-4}}) {
    EXPECT_EQ(rate(epoch), lr) << epoch;
  }
  o.kind = ScheduleKind::kPublishedLong;
  for (const auto& [epoch, lr] :
       std::vector<std::pair<int64_t, double>>{{1, 0},
                                               {4, 5e-4},
                                               {40, 5e-4},
                                               {41, 1e-4},
                                               {101, 5e-5},
                                               {201, 1e-5},
                                               {300, 1e-5}}) {
    EXPECT_EQ(rate(epoch), lr) << epoch;
  }
}

TEST(TrainSchedule, CosineWithWarmUp) {
  ScheduleOptions o;
  o.kind = ScheduleKind::kCosine;
  o.lr = 1, o.lr_final = 0.1, o.warmup = 10;
  EXPECT_DOUBLE_EQ(learning_rate(o, 0, 1, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(o, 9, 1, 110), 1);
  EXPECT_DOUBLE_EQ(learning_rate(o, 10, 1, 110), 1);
  EXPECT_NEAR(learning_rate(o, 60, 1, 110), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(o, 110, 1, 110), 0.1, 1e-12);
}

}  // namespace
}  // namespace propagator::train
