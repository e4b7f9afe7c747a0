#include "propagator/models/pod.h"

#include <torch/utils.h>

#include <cmath>

#include "jet_checks.h"
#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/train/checkpoint.h"
#include "testing.h"

namespace propagator::models {
namespace {

using testing::random;
using torch::Tensor;

// A wave that travels, u = sin(x - 2t) cos(y) + 4, and a pressure beside it,
// p = 3 cos(x - 2t) (1 + y): three modes are enough.
Tensor wave(const Tensor& x, const Tensor& y, const Tensor& t) {
  return torch::stack({torch::sin(x - 2 * t) * torch::cos(y) + 4,
                       3 * torch::cos(x - 2 * t) * (1 + y)},
                      -1);
}

// Problems are asked at other times than the snapshots are of.
const FieldDomain kChannel{.low = {0, -1, 10},
                           .high = {3, 1, 14},
                           .fields = 2,
                           .time = 2,
                           .variable_names = {"x", "y", "t"},
                           .field_names = {"u", "p"}};

PodOptions snapshots_in(const testing::TemporaryFolder& folder,
                        double last_x = 3) {
  const auto x = torch::linspace(0, last_x, 25, torch::kFloat64);
  const auto y = torch::linspace(-1, 1, 15, torch::kFloat64);
  const auto t = torch::linspace(0, 4, 30, torch::kFloat64);
  const auto grid = torch::meshgrid({t, y, x}, "ij");  // the other way round
  const auto fields = wave(grid[2], grid[1], grid[0]);
  PodOptions options;
  options.file = folder / "snapshots.h5";
  options.modes = 6;
  options.intervals = 16;
  data::write_table(options.file,
                    {{"x", x},
                     {"y", y},
                     {"t", t},
                     {"u", fields.select(-1, 0).contiguous()},
                     {"p", fields.select(-1, 1).contiguous()}},
                    "");
  return options;
}

Tensor channel_points(int64_t count, const std::string& name) {
  return torch::stack(
      {1.5 + 1.5 * random({count}, name + "x"), random({count}, name + "y"),
       12 + 2 * random({count}, name + "t")},
      1);
}

// Of u alone, in units of its spread.
autodiff::Observations read_u() {
  const auto points = channel_points(300, "pod ");
  const auto truth =
      wave(points.select(1, 0), points.select(1, 1), points.select(1, 2));
  const auto shift = torch::tensor({4., 0.}, torch::kFloat64);
  const auto scale = torch::tensor({0.5, 1.}, torch::kFloat64);
  auto readings = (truth - shift) / scale;
  readings.select(1, 1).fill_(std::nan(""));
  readings[5][0] = std::nan("");
  return {points, readings, shift, scale};
}

TEST(ModelsPod, AFieldThatIsNeverReadComesOutOfTheModes) {
  const testing::TemporaryFolder folder;
  const auto options = snapshots_in(folder);
  options.validate(kChannel);
  Pod net(options, kChannel);
  const auto read = read_u();
  net.observe(read);
  const auto asked = channel_points(50, "pod asked ");
  const auto answers =
      net.values(asked.unsqueeze(1)).squeeze(1) * read.scale + read.shift;
  const auto truth =
      wave(asked.select(1, 0), asked.select(1, 1), asked.select(1, 2));
  EXPECT_TRUE(testing::near(answers, truth, {0, 1e-2}));
}

TEST(ModelsPod, JetsAreNestedReverseModeAndDifferences) {
  const testing::TemporaryFolder folder;
  Pod net(snapshots_in(folder), kChannel);
  net.observe(read_u());
  const testing::MovingPoints at{
      channel_points(5, "pod jets ").unsqueeze(1),
      torch::tensor({{1., 0., 0.}, {0., 1., 0.}, {0., 0., 1.}, {1., 1., 1.}},
                    torch::kFloat64)};
  const auto map = testing::jet_map(net);
  EXPECT_TRUE(testing::derivatives_are_nested(map, at, 2, {1e-8, 1e-8}));
  EXPECT_TRUE(testing::derivatives_are_differences(map, at, 2, {1e-5, 1e-5}));
}

TEST(ModelsPod, ItsFileHasTheModesAndNeedsNoSnapshots) {
  const auto asked = channel_points(9, "pod file ").unsqueeze(1);
  train::NamedTensors stored;
  Tensor before;
  PodOptions options;
  {
    const testing::TemporaryFolder folder;
    options = snapshots_in(folder);
    Pod net(options, kChannel);
    net.observe(read_u());
    stored = train::copy_parameters(net);
    before = net.values(asked);
  }
  Pod other(options, kChannel);
  EXPECT_THROW(other.values(asked), UsageError) << "no readings yet";
  train::set_parameters(other, stored, "test");
  EXPECT_TRUE(torch::equal(other.values(asked), before));
  stored["axis0"] = torch::zeros({24}, torch::kFloat64);
  EXPECT_THROW(train::set_parameters(other, stored, "test"), DataError);
}

TEST(ModelsPod, SnapshotsMustCoverTheDomain) {
  const testing::TemporaryFolder folder;
  Pod net(snapshots_in(folder, /*last_x=*/2), kChannel);
  const auto message =
      testing::thrown<DataError>([&] { net.observe(read_u()); });
  EXPECT_NE(message.find("do not cover x from 0 to 3"), std::string::npos)
      << message;
}

TEST(ModelsPod, WhatItCannotDoIsRefused) {
  PodOptions options;
  EXPECT_THROW(options.validate(kChannel), ConfigError) << "no file";
  options.file = "some.h5";
  auto domain = kChannel;
  domain.time = -1;
  EXPECT_THROW(options.validate(domain), ConfigError);
  domain = kChannel;
  domain.log_variances_of = {0};
  EXPECT_THROW(options.validate(domain), ConfigError);
  domain = kChannel;
  domain.low.push_back(-1);  // an embedding
  domain.high.push_back(1);
  EXPECT_THROW(options.validate(domain), ConfigError);
}

}  // namespace
}  // namespace propagator::models
