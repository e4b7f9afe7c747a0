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
                                               Answer answer) {
  const auto options = frame_nets().at(setting.net).options();
  config::Schema schema;
  options->describe(schema);
  schema.find("width")->set("8");
  options->settle(shape,
                  std::vector<int64_t>(static_cast<size_t>(shape.axes()), 8));
  const auto model = std::make_shared<FieldForecaster>(options->make(shape),
                                                       answer, parameters);
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
        [&]() -> Tensor {
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
          [&]() -> Tensor {
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
