#include "propagator/models/field_forecaster.h"

#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::models {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;

constexpr testing::Tolerance kClose{1e-9, 1e-10};

struct Setting {
  std::string net;
  std::vector<bool> periodic;
};

std::string name_of(const ::testing::TestParamInfo<Setting>& info) {
  std::string name = info.param.net;
  std::erase(name, '_');
  for (const bool periodic : info.param.periodic) name += periodic ? "P" : "W";
  return name;
}

std::shared_ptr<FieldForecaster> forecaster_of(const Setting& setting,
                                               const FrameShape& shape,
                                               int64_t parameters,
                                               Answer answer,
                                               int64_t constants = 0) {
  const auto options = frame_nets().at(setting.net).options();
  config::Schema schema;
  options->describe(schema);
  schema.find("width")->set("8");
  if (shape.block > 0) schema.find("mask")->set("block");
  options->settle(shape,
                  std::vector<int64_t>(static_cast<size_t>(shape.axes()), 8));
  const auto model = std::make_shared<FieldForecaster>(
      options->make(shape), answer, parameters, constants);
  model->initialise(3);
  model->to(torch::kFloat64);
  model->eval();
  return model;
}

class ModelsFieldForecaster : public ::testing::TestWithParam<Setting> {
 protected:
  FrameShape shape() const {
    return {.periodic = GetParam().periodic,
            .channels = 2,
            .given = 3,
            .conditions = 1};
  }
  std::shared_ptr<FieldForecaster> model(Answer answer = Answer::kChange) {
    auto made = forecaster_of(GetParam(), shape(), 1, answer);
    bool given = false;
    made->calibrate(
        [&]() -> CaseFrames {
          if (given) return {};
          given = true;
          return frames(6);
        },
        torch::tensor({{1.0}, {3.0}}, torch::kFloat64));
    return made;
  }
  Tensor frames(int64_t count, int64_t nodes = 8) const {
    std::vector<int64_t> sizes{2, count};
    sizes.resize(2 + GetParam().periodic.size(), nodes);
    sizes.push_back(2);
    return 5 + 2 * random(sizes, "frames");
  }
  const Tensor numbers_ = torch::tensor({{1.0}, {2.0}}, torch::kFloat64);
};

// A rollout is one step, fed with its own answers.
TEST_P(ModelsFieldForecaster, ARolloutRepeatsOneStep) {
  const torch::NoGradGuard no_grad;
  const auto m = model();
  auto known = frames(3);
  const auto answer = m->rollout(known, numbers_, 3);
  for (int64_t n = 0; n < 3; ++n) {
    const auto all = m->forward(known, numbers_);
    known = torch::cat({known, all.narrow(1, all.size(1) - 1, 1)}, 1);
  }
  EXPECT_TRUE(near(answer, known.narrow(1, 3, 3), kClose));
}

// An answer knows the frames up to its own alone.
TEST_P(ModelsFieldForecaster, LaterFramesDecideNothing) {
  const torch::NoGradGuard no_grad;
  const auto m = model();
  const auto all = frames(6);
  auto other = all.clone();
  other.narrow(1, 4, 2).fill_(std::nan(""));
  const auto before = m->forward(all, numbers_),
             after = m->forward(other, numbers_);
  ASSERT_EQ(before.size(1), 4);
  EXPECT_TRUE(torch::equal(before.narrow(1, 0, 2), after.narrow(1, 0, 2)));
  EXPECT_TRUE(torch::isnan(after.narrow(1, 2, 2)).any().item<bool>());
}

TEST_P(ModelsFieldForecaster, MovesWithAPeriodicField) {
  const torch::NoGradGuard no_grad;
  const auto m = model();
  const auto x = frames(3);
  for (size_t d = 0; d < GetParam().periodic.size(); ++d) {
    const auto axis = static_cast<int64_t>(d) + 2;
    const auto moved = m->forward(torch::roll(x, 4, axis), numbers_);
    const bool same = torch::allclose(
        moved, torch::roll(m->forward(x, numbers_), 4, axis), 1e-9, 1e-10);
    EXPECT_EQ(same, GetParam().periodic[d]) << d;
  }
}

TEST_P(ModelsFieldForecaster, WorksOnOtherGridsAndUsesNumbersOfCases) {
  const torch::NoGradGuard no_grad;
  const auto m = model(Answer::kField);
  const auto x = frames(4, 16);
  const auto answer = m->forward(x, numbers_);
  EXPECT_EQ(answer.size(2), 16);
  EXPECT_FALSE(torch::equal(answer, m->forward(x, numbers_ + 1)));
}

// All units scale with the data: so does the answer.
TEST_P(ModelsFieldForecaster, UnitsAreThoseOfTheData) {
  const torch::NoGradGuard no_grad;
  for (const auto kind : {Answer::kChange, Answer::kField}) {
    const auto at = [&](double scale, double shift) {
      const auto m = forecaster_of(GetParam(), shape(), 1, kind);
      bool given = false;
      m->calibrate(
          [&]() -> CaseFrames {
            if (given) return {};
            given = true;
            return frames(6) * scale + shift;
          },
          numbers_);
      return (m->rollout(frames(3) * scale + shift, numbers_, 2) - shift) /
             scale;
    };
    EXPECT_TRUE(near(at(100, 7), at(1, 0), {1e-8, 1e-9}));
  }
}

TEST_P(ModelsFieldForecaster, EveryParameterHasAGradient) {
  const auto m = model();
  m->rollout(frames(3), numbers_, 2).square().sum().backward();
  for (const auto& item : m->named_parameters()) {
    if (!item.value().requires_grad()) continue;  // units
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().sum().item<double>(), 0) << item.key();
  }
}

// What does not change in time is known to every network, in units of its own.
TEST_P(ModelsFieldForecaster, IsToldConstantInputs) {
  const torch::NoGradGuard no_grad;
  auto with = shape();
  with.conditions = 3;  // a number and two at each node
  auto sizes = frames(3).select(1, 0).sizes().vec();
  const auto constants = random(sizes, "constants");
  const auto at = [&](double scale, double shift, double change) {
    const auto m = forecaster_of(GetParam(), with, 1, Answer::kField, 2);
    bool given = false;
    m->calibrate(
        [&]() -> CaseFrames {
          if (given) return {};
          given = true;
          return {frames(6), constants * scale + shift};
        },
        numbers_);
    const auto told = (constants + change) * scale + shift;
    return m->rollout(frames(3), {numbers_, told}, 2);
  };
  const auto one = at(1, 0, 0);
  EXPECT_EQ(one.size(-1), 2);  // constants are not among the answers
  EXPECT_TRUE(near(at(50, -3, 0), one, {1e-8, 1e-9}));
  EXPECT_FALSE(torch::allclose(at(1, 0, 0.1), one));
}

INSTANTIATE_TEST_SUITE_P(All, ModelsFieldForecaster, ::testing::ValuesIn([] {
                           std::vector<Setting> all;
                           for (const auto& [name, kind] : frame_nets()) {
                             for (const auto& periodic :
                                  {std::vector<bool>{true},
                                   {false},
                                   {true, false},
                                   {true, true, true}}) {
                               all.push_back({name, periodic});
                             }
                           }
                           return all;
                         }()),
                         name_of);

// Networks with a block mask: three given frames, four later ones at most.
class ModelsBlockForecaster : public ::testing::TestWithParam<Setting> {
 protected:
  std::shared_ptr<FieldForecaster> model(Answer answer, double scale = 1,
                                         double shift = 0) const {
    const FrameShape shape{.periodic = GetParam().periodic,
                           .channels = 2,
                           .given = 3,
                           .conditions = 1,
                           .block = 4};
    auto made = forecaster_of(GetParam(), shape, 1, answer);
    bool given = false;
    made->calibrate(
        [&]() -> CaseFrames {
          if (given) return {};
          given = true;
          return frames(8) * scale + shift;
        },
        torch::tensor({{1.0}, {3.0}}, torch::kFloat64));
    return made;
  }
  Tensor frames(int64_t count) const {
    std::vector<int64_t> sizes{2, count};
    sizes.resize(2 + GetParam().periodic.size(), 8);
    sizes.push_back(2);
    return 5 + 2 * random(sizes, "frames");
  }
  const Tensor numbers_ = torch::tensor({{1.0}, {2.0}}, torch::kFloat64);
};

TEST_P(ModelsBlockForecaster, HiddenFramesDecideNothing) {
  const torch::NoGradGuard no_grad;
  for (const auto kind : {Answer::kChange, Answer::kField}) {
    const auto m = model(kind);
    auto seen = frames(6);
    const auto answer = m->rollout(seen.narrow(1, 0, 3), numbers_, 4);
    seen.slice(1, 3).fill_(std::nan(""));
    EXPECT_TRUE(torch::equal(m->forward(seen, numbers_), answer));
    EXPECT_TRUE(near(m->rollout(seen.narrow(1, 0, 3), numbers_, 2),
                     answer.narrow(1, 0, 2), kClose));
    EXPECT_GT(answer.diff(1, 1).abs().amax({0, 2}).min().item<double>(), 0);
  }
}

TEST_P(ModelsBlockForecaster, OneStepIsTheFirstAnswerToEachWindow) {
  const torch::NoGradGuard no_grad;
  const auto m = model(Answer::kChange);
  const auto all = frames(5);
  const auto steps = m->one_step(all, numbers_);
  ASSERT_EQ(steps.size(1), 3);
  for (int64_t n = 0; n < 3; ++n) {
    const auto first = m->rollout(all.narrow(1, n, 3), numbers_, 4);
    EXPECT_TRUE(near(steps.select(1, n), first.select(1, 0), kClose));
  }
}

// Changes since the last given frame, whichever of the two it may be.
TEST_P(ModelsBlockForecaster, UnitsAreOfEachLaterFrame) {
  const torch::NoGradGuard no_grad;
  const auto m = model(Answer::kChange);
  const auto scale = m->answer_scale(4);
  const auto all = frames(8).flatten(2, -2);  // (2, 8, nodes, 2)
  for (int64_t n = 0; n < 4; ++n) {
    const auto changes = torch::cat({all.select(1, 3 + n) - all.select(1, 2),
                                     all.select(1, 4 + n) - all.select(1, 3)});
    EXPECT_TRUE(near(scale[n].flatten(),
                     changes.square().flatten(0, 1).mean(0).sqrt(),
                     {1e-9, 1e-10}));
  }
  const auto moved =
      model(Answer::kChange, 100, 7)->rollout(frames(3) * 100 + 7, numbers_, 4);
  EXPECT_TRUE(near((moved - 7) / 100, m->rollout(frames(3), numbers_, 4),
                   {1e-8, 1e-9}));
}

TEST_P(ModelsBlockForecaster, AnswersNoMoreThanItWasMadeFor) {
  const auto m = model(Answer::kField);
  for (const int64_t steps : {5, 100}) {
    EXPECT_NE(testing::thrown<std::invalid_argument>([&] {
                m->rollout(frames(3), numbers_, steps);
              }).find("expected 4 frames or fewer"),
              std::string::npos);
  }
  EXPECT_THROW(m->forward(frames(7), numbers_), std::invalid_argument);
}

TEST_P(ModelsBlockForecaster, EveryParameterHasAGradient) {
  const auto m = model(Answer::kChange);
  m->rollout(frames(3), numbers_, 4).square().sum().backward();
  for (const auto& item : m->named_parameters()) {
    if (!item.value().requires_grad()) continue;  // units
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().sum().item<double>(), 0) << item.key();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ModelsBlockForecaster, ::testing::ValuesIn([] {
      std::vector<Setting> all;
      for (const char* name : {"cnn", "fno", "space_time", "unet"}) {
        all.push_back({name, {true}});
        all.push_back({name, {true, false}});
      }
      return all;
    }()),
    name_of);

TEST(ModelsFrameNet, ARecurrentNetworkHasNoBlock) {
  const auto options = frame_nets().at("conv_lstm").options();
  config::Schema schema;
  options->describe(schema);
  EXPECT_EQ(schema.find("mask"), nullptr);
  EXPECT_EQ(options->mask(), nn::MaskType::kCausal);
}

// Of a convolution an output is made of all channels of all nodes that it sees.
TEST(ModelsFrameNet, ConvolutionsBeginSmallerTheMoreTheySee) {
  const auto options = frame_nets().at("cnn").options();
  config::Schema schema;
  options->describe(schema);
  schema.find("width")->set("16");
  const auto net = options->make({.periodic = {true, true}});
  net->initialise(1);
  const double largest = net->named_parameters()["convolution1.weight"]
                             .abs()
                             .max()
                             .item<double>(),
               bound = 1 / std::sqrt(16.0 * 5 * 5);
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.99 * bound);
}

TEST(ModelsFrameFno, ChoosesModesThatTheGridHas) {
  const auto modes_on = [](std::vector<int64_t> nodes, std::vector<bool> is) {
    const auto options = frame_nets().at("fno").options();
    config::Schema schema;
    options->describe(schema);
    options->settle({.periodic = is}, nodes);
    return schema.find("modes")->get();
  };
  EXPECT_EQ(modes_on({64}, {true}), "12");
  EXPECT_EQ(modes_on({64, 10}, {true, true}), "5");
  EXPECT_EQ(modes_on({16}, {false}), "9");  // with two nodes of margin
  const auto options = frame_nets().at("fno").options();
  config::Schema schema;
  options->describe(schema);
  schema.find("modes")->set("9");
  EXPECT_THROW(options->settle({.periodic = {true}}, {16}), ConfigError);
}

}  // namespace
}  // namespace propagator::models
