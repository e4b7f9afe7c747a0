#include "propagator/models/heat_former.h"

#include <torch/autograd.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "small_heat_former.h"
#include "testing.h"

namespace propagator::models {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::small_options;

constexpr FieldShape kShape{12, 5, 6};
constexpr Predicts kAllPredicts[] = {Predicts::kField, Predicts::kChange,
                                     Predicts::kScaledChange};

std::shared_ptr<HeatFormer> make(const HeatFormerOptions& options,
                                 const FieldShape& shape = kShape) {
  return propagator::testing::make_heat_former(options, shape);
}

const auto kAlpha = torch::tensor({0.02, 0.09}, torch::kFloat64);

torch::Tensor frames() { return random({2, 12, 5, 6}, "frames"); }

// |∂ output_i / ∂ input frame j| at its largest: (T, T).
torch::Tensor dependence(HeatFormer& model) {
  auto x = frames().set_requires_grad(true);
  const auto out = model.forward(x, kAlpha);
  const auto cotangent = random({2, 5, 6}, "cotangent");
  std::vector<torch::Tensor> rows;
  for (int64_t i = 0; i < 12; ++i) {
    const auto g = torch::autograd::grad({out.select(1, i)}, {x}, {cotangent},
                                         /*retain_graph=*/true);
    rows.push_back(g[0].abs().amax({0, 2, 3}));
  }
  return torch::stack(rows);
}

TEST(ModelsHeatFormer, DocumentsModelHasItsParameters) {
  HeatFormerOptions o;
  o.inputs = Inputs::kPublished;
  // Input projection, α, 12 × (attention, feed-forward, two norms), two more
  // norms, output: counted by hand from the paper's listing.
  const int64_t layer =
      4 * 512 * 512 + (512 * 256 + 256) + (256 * 512 + 512) + 4 * 512;
  const int64_t rest = 2 * 512 + 12 * layer + 4 * 512 + 512 * 676 + 676;
  const HeatFormer collapsed(o, {401, 26, 26});
  EXPECT_EQ(nn::parameter_count(collapsed), 676 * 512 + 512 + rest);
  o.embedding = nn::EmbeddingForm::kPublished;
  const HeatFormer published(o, {401, 26, 26});
  EXPECT_EQ(nn::parameter_count(published), 88'605'184 + rest);
}

TEST(ModelsHeatFormer, CollapseIsTheSameFunctionAtFullSize) {
  HeatFormerOptions o;
  o.embedding = nn::EmbeddingForm::kPublished;
  o.layers = 1;
  HeatFormer published(o, {9, 26, 26});
  nn::initialise(published, 1);
  const torch::NoGradGuard no_grad;
  const auto x = random({1, 9, 26, 26}, "plate").to(torch::kFloat32).abs();
  const auto alpha = torch::full({1}, 0.05f);
  EXPECT_TRUE(near(published.collapse()->forward(x, alpha),
                   published.forward(x, alpha), {1e-5, 1e-5}));
}

TEST(ModelsHeatFormer, VisibleWorkEqualsFullMask) {
  for (const auto mask : {MaskType::kBlock, MaskType::kCausal}) {
    for (const auto inputs : {Inputs::kHonest, Inputs::kPublished}) {
      auto model = make(small_options(mask, inputs));
      const auto fast = model->forward(frames(), kAlpha);
      model->set_attention_work(nn::AttentionWork::kFullMask);
      EXPECT_TRUE(near(fast, model->forward(frames(), kAlpha), {1e-10, 1e-12}));
    }
  }
}

TEST(ModelsHeatFormer, HonestOutputsIgnoreEveryHiddenFrameExactly) {
  for (const auto mask : {MaskType::kBlock, MaskType::kCausal}) {
    for (const auto predicts : kAllPredicts) {
      auto options = small_options(mask, Inputs::kHonest);
      options.predicts = predicts;
      options.scaling =
          predicts == Predicts::kField ? Scaling::kNone : Scaling::kCase;
      auto model = make(options);
      const auto g = dependence(*model);
      for (int64_t i = 0; i < 12; ++i) {
        const int64_t hidden = model->first_hidden(i);
        EXPECT_EQ(g[i].slice(0, hidden).abs().sum().item<double>(), 0);
        EXPECT_GT(g[i].slice(0, 0, 3).min().item<double>(), 0);
      }
      // A causal output uses the frame before it.
      if (mask == MaskType::kCausal) {
        EXPECT_GT(g[9][8].item<double>(), 0);
      }
    }
  }
}

TEST(ModelsHeatFormer, PublishedInputsLeakOnTheDiagonalAndNowhereElse) {
  // Finding 1 on the heat-plate paper: output t sees its own hidden frame t.
  auto model = make(small_options(MaskType::kBlock, Inputs::kPublished));
  const auto g = dependence(*model);
  for (int64_t i = 3; i < 12; ++i) {
    EXPECT_GT(g[i][i].item<double>(), 0);
    for (int64_t j = 3; j < 12; ++j) {
      if (j != i) {
        EXPECT_EQ(g[i][j].item<double>(), 0);
      }
    }
  }
  auto causal = make(small_options(MaskType::kCausal, Inputs::kPublished));
  EXPECT_GT(dependence(*causal)[9][9].item<double>(), 0);
  EXPECT_EQ(dependence(*causal)[9][10].item<double>(), 0);
}

TEST(ModelsHeatFormer, CachedRolloutEqualsFullRecomputation) {
  for (const auto predicts : kAllPredicts) {
    auto options = small_options(MaskType::kCausal, Inputs::kHonest);
    options.predicts = predicts;
    options.scaling =
        predicts == Predicts::kField ? Scaling::kNone : Scaling::kCase;
    auto model = make(options);
    const torch::NoGradGuard no_grad;
    const auto first = frames().narrow(1, 0, 3);
    const auto cached = model->predict(first, kAlpha);
    auto full = torch::zeros({2, 12, 5, 6}, torch::kFloat64);
    full.narrow(1, 0, 3).copy_(first);
    for (int64_t t = 3; t < 12; ++t) {
      full.select(1, t).copy_(model->forward(full, kAlpha).select(1, t));
    }
    EXPECT_TRUE(near(cached, full, {1e-10, 1e-12}));
    // And in the precision that users run.
    model->to(torch::kFloat32);
    EXPECT_TRUE(near(
        model->predict(first.to(torch::kFloat32), kAlpha.to(torch::kFloat32)),
        full, {1e-5, 1e-5}));
  }
}

TEST(ModelsHeatFormer, PublishedRolloutReplacesTheTruthStrideByStride) {
  auto model = make(small_options(MaskType::kCausal, Inputs::kPublished));
  const torch::NoGradGuard no_grad;
  const auto truth = frames();
  auto expected = truth.clone();
  for (const auto& [begin, end] : {std::pair{3, 8}, {8, 12}}) {
    const auto out = model->forward(expected, kAlpha);
    expected.slice(1, begin, end).copy_(out.slice(1, begin, end));
  }
  EXPECT_TRUE(
      torch::equal(published_rollout(*model, truth, kAlpha, 5), expected));
}

TEST(ModelsHeatFormer, BlockPredictNeedsOnlyTheVisibleFrames) {
  auto model = make(small_options(MaskType::kBlock, Inputs::kHonest));
  const torch::NoGradGuard no_grad;
  const auto first = frames().narrow(1, 0, 3);
  const auto answer = model->predict(first, kAlpha);
  EXPECT_TRUE(torch::equal(answer.narrow(1, 0, 3), first));
  EXPECT_TRUE(torch::equal(answer.slice(1, 3),
                           model->forward(frames(), kAlpha).slice(1, 3)));
}

TEST(ModelsHeatFormer, CudaAgreesWithTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto on_gpu = [](const torch::Tensor& t) { return t.to(torch::kCUDA); };
  for (const auto mask : {MaskType::kBlock, MaskType::kCausal}) {
    auto model = make(small_options(mask, Inputs::kHonest));
    const auto first = frames().narrow(1, 0, 3);
    const auto all = model->forward(frames(), kAlpha).detach();
    const auto future = model->predict(first, kAlpha).detach();
    model->to(torch::kCUDA);
    EXPECT_TRUE(near(model->forward(on_gpu(frames()), on_gpu(kAlpha)), all,
                     {1e-10, 1e-12}));
    EXPECT_TRUE(near(model->predict(on_gpu(first), on_gpu(kAlpha)), future,
                     {1e-10, 1e-12}));
  }
}

TEST(ModelsHeatFormer, DiffusivityReachesEveryOutput) {
  auto model = make(small_options(MaskType::kBlock, Inputs::kHonest));
  const auto a = model->forward(frames(), kAlpha);
  const auto b = model->forward(frames(), kAlpha + 0.05);
  EXPECT_GT((a - b).abs().amax({0, 2, 3}).min().item<double>(), 1e-6);
}

TEST(ModelsHeatFormer, BadSizesAndMisuseAreRefused) {
  auto options = small_options(MaskType::kBlock, Inputs::kHonest);
  options.heads = 3;
  EXPECT_THROW(options.validate(kShape), ConfigError);
  options = small_options(MaskType::kBlock, Inputs::kHonest);
  options.visible = 12;
  EXPECT_THROW(options.validate(kShape), ConfigError);
  options.visible = 3;
  options.width = 18;
  options.heads = 2;
  EXPECT_THROW(options.validate(kShape), ConfigError);
  auto published = make(small_options(MaskType::kCausal, Inputs::kPublished));
  EXPECT_THROW(published->predict(frames().narrow(1, 0, 3), kAlpha),
               UsageError);
  auto honest = make(small_options(MaskType::kCausal, Inputs::kHonest));
  EXPECT_THROW(honest->predict(frames().narrow(1, 0, 4), kAlpha), UsageError);
}

TEST(ModelsHeatFormer, SomeFramesAreTheSameAsInTheWholeForecast) {
  const torch::NoGradGuard no_grad;
  for (const auto mask : {MaskType::kBlock, MaskType::kCausal}) {
    for (const auto predicts : kAllPredicts) {
      auto options = small_options(mask, Inputs::kHonest);
      options.predicts = predicts;
      options.scaling =
          predicts == Predicts::kField ? Scaling::kNone : Scaling::kCase;
      const auto model = make(options);
      const auto first = random({2, 3, 5, 6}, "first");
      const auto all = model->predict(first, kAlpha);
      const std::vector<int64_t> times{7, 1, 4};
      const auto some = model->predict_at(first, kAlpha, times);
      EXPECT_TRUE(near(some,
                       all.index_select(1, torch::tensor(times, torch::kInt64)),
                       kFloat64));
    }
  }
}

// Histories whose edges never change, given to `calibrate` in two parts.
torch::Tensor histories() {
  auto all = random({6, 12, 5, 6}, "histories");
  all.slice(2, 0, 1).copy_(all.select(1, 0).unsqueeze(1).slice(2, 0, 1));
  return all;
}

void calibrate(HeatFormer& model) {
  const auto parts = histories().split(4);
  size_t next = 0;
  model.calibrate(
      [&] { return next < parts.size() ? parts[next++] : torch::Tensor(); });
}

TEST(ModelsHeatFormer, ScaledChangeIsInUnitsOfTheTrainingCases) {
  for (const auto mask : {MaskType::kBlock, MaskType::kCausal}) {
    auto options = small_options(mask, Inputs::kHonest);
    options.predicts = Predicts::kScaledChange;
    auto model = make(options);
    calibrate(*model);
    const auto change = histories() - histories().narrow(1, 2, 1);
    const auto scale = model->named_parameters()["change_scale"];
    EXPECT_TRUE(near(scale, change.square().mean(0).sqrt(), kFloat64));
    EXPECT_FALSE(scale.requires_grad());
    // Where no training case ever changes, no answer does.
    const torch::NoGradGuard no_grad;
    const auto out = model->predict(frames().slice(1, 0, 3), kAlpha);
    EXPECT_TRUE(torch::equal(
        out.slice(1, 3).slice(2, 0, 1),
        frames().narrow(1, 2, 1).slice(2, 0, 1).expand({2, 9, 1, 6})));
  }
}

TEST(ModelsHeatFormer, CaseScalingCommutesWithScalingAndShiftingThePlate) {
  // The symmetry T → a T + b of the heat equation, exact for any weights.
  for (const auto mask : {MaskType::kBlock, MaskType::kCausal}) {
    for (const auto predicts : kAllPredicts) {
      auto options = small_options(mask, Inputs::kHonest);
      options.predicts = predicts;
      options.scaling = Scaling::kCase;
      auto model = make(options);
      const torch::NoGradGuard no_grad;
      const auto first = frames().slice(1, 0, 3);
      const auto plain = model->predict(first, kAlpha);
      const auto moved = model->predict(2.5 * first - 0.7, kAlpha);
      EXPECT_TRUE(near(moved, 2.5 * plain - 0.7, {1e-9, 1e-10}));
    }
  }
}

TEST(ModelsHeatFormer, APlateOfOneTemperatureStaysFinite) {
  auto options = small_options(MaskType::kBlock, Inputs::kHonest);
  options.predicts = Predicts::kScaledChange;
  options.scaling = Scaling::kCase;
  const auto out = make(options)->predict(
      torch::full({2, 3, 5, 6}, 0.4, torch::kFloat64), kAlpha);
  EXPECT_TRUE(near(out, torch::full_like(out, 0.4), {0, 1e-4}));
}

TEST(ModelsHeatFormer, InternalsAreThePartsThatMakeAPicture) {
  const auto model = make(small_options(MaskType::kCausal, Inputs::kPublished));
  const auto internals = model->internals();
  EXPECT_EQ(internals.time_encoding.sizes(), (torch::IntArrayRef{12, 16}));
  const auto weight = model->named_parameters()["output.weight"];
  EXPECT_TRUE(near(internals.output_emphasis[4][5],
                   weight[4 * 6 + 5].abs().mean(), kFloat64));
  // Published causal: query i sees the first three keys and those before it.
  for (int64_t i = 0; i < 12; ++i) {
    for (int64_t j = 0; j < 12; ++j) {
      EXPECT_EQ(internals.mask[i][j].item<bool>(), j < 3 || j < i);
    }
  }
}

}  // namespace
}  // namespace propagator::models
