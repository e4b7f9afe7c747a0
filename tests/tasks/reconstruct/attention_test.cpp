#include "propagator/tasks/reconstruct/attention.h"

#include <torch/utils.h>

#include <numbers>

#include "propagator/core/files.h"
#include "propagator/models/pgt.h"
#include "propagator/models/pinn.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::near;
using torch::Tensor;

const models::FieldDomain kRod{
    .low = {0, 0}, .high = {2, 1}, .fields = 1, .time = 1};
constexpr double kRate = 0.3;

const Tensor kSensors =
    torch::tensor({{0.2, 0.1}, {1.0, 0.3}, {1.7, 0.35}, {1.1, 0.7}, {0.6, 0.9}},
                  torch::kFloat64);
constexpr int64_t kAsked = 3;

std::shared_ptr<models::Pgt> pgt_with(kernels::GreenKind kind) {
  models::PgtOptions options;
  options.width = 8;
  options.heads = 2;
  options.layers = 2;
  options.green.kind = kind;
  options.green.rate = kRate;
  auto net = std::make_shared<models::Pgt>(options, kRod);
  net->to(torch::kFloat64);
  net->initialise(1);
  net->observe({kSensors, testing::random({5, 1}, "readings")});
  return net;
}

SensorAttention attention_of(models::FieldNet& net) {
  const auto place = kSensors.slice(0, kAsked, kAsked + 1).unsqueeze(1);
  return attention_at(net, place, kAsked, 5).value();
}

TEST(TasksSensorAttention, WeightsSumToOneAndTheFutureHasNone) {
  const auto net = pgt_with(kernels::GreenKind::kHeat);
  const auto attention = attention_of(*net);
  const auto one = torch::ones({}, torch::kFloat64);
  ASSERT_EQ(attention.point.sizes(), (std::vector<int64_t>{2, 5}));
  ASSERT_EQ(attention.layers.sizes(), (std::vector<int64_t>{2, 6}));
  EXPECT_TRUE(near(attention.point.sum(1), one.expand({2}), testing::kFloat64));
  EXPECT_TRUE(
      near(attention.layers.sum(1), one.expand({2}), testing::kFloat64));
  EXPECT_GT(attention.layers.slice(1, 0, 4).min().item<double>(), 0);
  // Itself and the one that comes later.
  EXPECT_EQ(attention.layers.slice(1, 4).abs().max().item<double>(), 0);
}

TEST(TasksSensorAttention, TheGreensFunctionIsTheHeatKernelBesideAOne) {
  const auto net = pgt_with(kernels::GreenKind::kHeat);
  std::vector<double> expected{1};  // the global token: Γ = 0
  for (int64_t j = 0; j < 5; ++j) {
    const auto apart = kSensors[kAsked] - kSensors[j];
    const double dx = apart[0].item<double>(), dt = apart[1].item<double>();
    expected.push_back(dt > 0 ? std::exp(-dx * dx / (4 * kRate * dt)) /
                                    std::sqrt(4 * std::numbers::pi * kRate * dt)
                              : 0);
  }
  const auto all = torch::tensor(expected, torch::kFloat64);
  EXPECT_TRUE(near(attention_of(*net).green, all / all.sum(), {1e-6, 1e-9}));
}

TEST(TasksSensorAttention, APointWithoutAQuestionAsksAllAlike) {
  const auto net = pgt_with(kernels::GreenKind::kNone);
  EXPECT_FALSE(attention_of(*net).green.defined());
  EXPECT_GT((attention_of(*net).point - 0.2).abs().max().item<double>(), 1e-3);
  const torch::NoGradGuard no_grad;
  net->named_parameters()["query.weight"].zero_();
  EXPECT_TRUE(near(attention_of(*net).point,
                   torch::full({2, 5}, 0.2, torch::kFloat64),
                   testing::kFloat64));
}

TEST(TasksSensorAttention, ObservingChangesNothingAndEnds) {
  const auto net = pgt_with(kernels::GreenKind::kHeat);
  const auto places = testing::random({4, 1, 2}, "points") * 0.4 + 0.5;
  const auto before = net->values(places);
  const auto attention = attention_of(*net);
  EXPECT_TRUE(near(net->values(places), before, testing::kFloat64));
  // A run that was opened to be used holds what its sensors are encoded as.
  const auto held = net->hold();
  EXPECT_TRUE(
      near(attention_of(*net).layers, attention.layers, testing::kFloat64));
}

TEST(TasksSensorAttention, ANetworkWithoutSensorsHasNone) {
  models::PinnOptions options;
  const auto net = options.make(kRod);
  EXPECT_FALSE(attention_at(*net, torch::zeros({1, 1, 2}), 0, 5).has_value());
  const auto pgt = pgt_with(kernels::GreenKind::kHeat);
  EXPECT_FALSE(attention_at(*pgt, kSensors.slice(0, 0, 1).unsqueeze(1), 0, 6)
                   .has_value())
      << "other sensors";
}

TEST(TasksSensorAttention, TheSensorThatIsShownHasAPast) {
  EXPECT_EQ(telling_sensor(kSensors, {{0, 2}, {0, 1}}, 1), 3);
  EXPECT_EQ(telling_sensor(kSensors, {{0, 2}, {0, 1}}, -1), 1);
}

TEST(TasksSensorAttention, TheFigureHasEveryWeightAtItsSensor) {
  const testing::TemporaryFolder folder;
  const auto net = pgt_with(kernels::GreenKind::kHeat);
  const auto attention = attention_of(*net);
  TestGrid grid{.variables = {"x", "t"},
                .along = {torch::linspace(0, 2, 3, torch::kFloat64),
                          torch::linspace(0, 1, 3, torch::kFloat64)}};
  const auto plane = SolvePlane::of(grid, 1);
  report::Report page(folder.path(), "page.html", "title", "kind");
  draw_attention(attention, plane->near(kSensors, 0)[0], *plane, page);
  const auto text = read_file(page.write());
  EXPECT_NE(text.find("Green's function"), std::string::npos);
  // Time to the right; the sensor before all has a weight in every panel.
  const auto point = read_file(folder / "figures/sensor-attention-1.dat");
  const auto sensor = read_file(folder / "figures/sensor-attention-2.dat");
  const auto row = [](const Tensor& weight) {
    return fmt::format("0.1\t0.2\t{:.9g}\n", weight.item<double>());
  };
  EXPECT_NE(point.find(row(attention.point.mean(0)[0])), std::string::npos);
  EXPECT_NE(point.find(row(attention.point[1][0])), std::string::npos);
  EXPECT_NE(sensor.find(row(attention.green[1])), std::string::npos);
  EXPECT_NE(sensor.find(row(attention.layers[1][1])), std::string::npos);
  EXPECT_NE(sensor.find("0.9\t0.6\tNaN\n"), std::string::npos);
}

}  // namespace
}  // namespace propagator::tasks
