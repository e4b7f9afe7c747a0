#include "propagator/data/fields/field_file.h"

#include <limits>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/fields/field_simulator.h"
#include "propagator/data/npz.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::TemporaryFolder;
using testing::thrown;

// Two channels of three cases, four times, on 5 x 6 points.
FieldSet small_set() {
  const auto line = [](int64_t n) { return torch::arange(n, torch::kFloat64); };
  return {
      .layout = {.times = 0.1 * line(4),
                 .axes = {{"x", line(5), Boundary::kPeriodic},
                          {"y", 0.5 * line(6), Boundary::kWall}},
                 .channels = {"u", "v"},
                 .parameters = {"speed"},
                 .constants = {"k", "mask"}},
      .values = testing::random({3, 4, 5, 6, 2}, "values").to(torch::kFloat32),
      .parameters = testing::random({3, 1}, "parameters"),
      .note = {{"made_by", "hand"}},
      .constants =
          testing::random({3, 5, 6, 2}, "constants").to(torch::kFloat32)};
}

TEST(DataFieldFile, ReadsWhatWasWritten) {
  const TemporaryFolder folder;
  const auto set = small_set();
  std::vector<std::string> names{"a.h5"};
  if (has_npz()) names.push_back("a.npz");
  for (const auto& name : names) {
    write_field_set(folder / name, set);
    const auto read = read_field_set(folder / name);
    EXPECT_EQ(read.values.scalar_type(), torch::kFloat32);
    EXPECT_TRUE(torch::equal(read.values, set.values)) << name;
    EXPECT_TRUE(torch::equal(read.parameters, set.parameters)) << name;
    EXPECT_TRUE(torch::equal(read.constants, set.constants)) << name;
    EXPECT_EQ(read.layout.constants, set.layout.constants);
    EXPECT_TRUE(torch::equal(read.layout.times, set.layout.times));
    EXPECT_EQ(read.layout.channels, set.layout.channels);
    EXPECT_EQ(read.layout.parameters, set.layout.parameters);
    ASSERT_EQ(read.layout.axes.size(), 2u);
    EXPECT_EQ(read.layout.axes[1].name, "y");
    EXPECT_EQ(read.layout.axes[1].boundary, Boundary::kWall);
    EXPECT_TRUE(torch::equal(read.layout.axes[1].at, set.layout.axes[1].at));
    EXPECT_EQ(read.note.at("made_by"), "hand");
    const FieldReader reader(folder / name);
    EXPECT_TRUE(torch::equal(reader.values(1, 2), set.values.narrow(0, 1, 2)));
    thrown<UsageError>([&] { reader.values(2, 2); });
  }
}

// What a damaged file says of itself.
std::string refused(
    const std::function<void(Tensors&, nlohmann::json&)>& harm) {
  const TemporaryFolder folder;
  const auto set = small_set();
  auto tensors = field_tensors(set);
  auto note = field_note(set.layout);
  harm(tensors, note);
  save_tensors(folder / "bad.h5", {tensors, note.dump()});
  return thrown<DataError>([&] { read_field_set(folder / "bad.h5"); });
}

void expect_refused(
    const char* text,
    const std::function<void(Tensors&, nlohmann::json&)>& harm) {
  const auto said = refused(harm);
  EXPECT_NE(said.find(text), std::string::npos) << said;
}

TEST(DataFieldFile, BadArraysAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_refused("(cases, time, x, y, channels)", [](Tensors& t, auto&) {
    t["fields"] = t["fields"].select(4, 0).contiguous();
  });
  expect_refused("'fields'", [](Tensors& t, auto&) { t.erase("fields"); });
  expect_refused("case 1, frame 2",
                 [&](Tensors& t, auto&) { t["fields"][1][2][0][0][0] = nan; });
  expect_refused("expected 'y' of shape (6), got (5)",
                 [](Tensors& t, auto&) { t["y"] = t["y"].narrow(0, 0, 5); });
  expect_refused("expected 't' to rise",
                 [](Tensors& t, auto&) { t["t"] = t["t"].flip(0); });
  expect_refused("'x' are not finite",
                 [&](Tensors& t, auto&) { t["x"][2] = nan; });
  expect_refused("expected 'parameters' of shape (3, 1)",
                 [](Tensors& t, auto&) {
                   t["parameters"] = t["parameters"].repeat({1, 2});
                 });
  expect_refused("expected 'constants' of shape (3, 5, 6, 2)",
                 [](Tensors& t, auto&) {
                   t["constants"] = t["constants"].select(3, 0).contiguous();
                 });
  expect_refused("'constants' are not finite",
                 [&](Tensors& t, auto&) { t["constants"][1][0][0][0] = nan; });
  expect_refused("'parameters' are not finite",
                 [&](Tensors& t, auto&) { t["parameters"][0][0] = nan; });
}

TEST(DataFieldFile, BadNotesAreRefused) {
  expect_refused("expected a file of fields",
                 [](auto&, nlohmann::json& n) { n["layout"] = "wake"; });
  expect_refused("expected a file of fields",
                 [](auto&, nlohmann::json& n) { n = 3; });
  expect_refused("a list 'axes'",
                 [](auto&, nlohmann::json& n) { n.erase("axes"); });
  expect_refused("plain names under 'channels'", [](auto&, nlohmann::json& n) {
    n["channels"] = {"u", "v\x1b[2J"};
  });
  expect_refused("plain names under 'channels'", [](auto&, nlohmann::json& n) {
    n["channels"] = {"u", 3};
  });
  expect_refused("'u' is there twice", [](auto&, nlohmann::json& n) {
    n["channels"] = {"u", "u"};
  });
  expect_refused("expected 3 channels", [](auto&, nlohmann::json& n) {
    n["channels"] = {"u", "v", "w"};
  });
  expect_refused("boundary for each of 2 axes",
                 [](auto&, nlohmann::json& n) { n["boundaries"] = {"wall"}; });
  expect_refused("periodic | wall | open", [](auto&, nlohmann::json& n) {
    n["boundaries"] = {"wall", "sticky"};
  });
  expect_refused("cannot be named 't'", [](auto&, nlohmann::json& n) {
    n["axes"] = {"x", "t"};
  });
  expect_refused("an array named 'z'", [](auto&, nlohmann::json& n) {
    n["axes"] = {"x", "z"};
  });
}

TEST(DataFieldFile, WritersMistakesAreUsageErrors) {
  auto set = small_set();
  set.layout.channels = {"u"};
  thrown<UsageError>([&] { field_tensors(set); });
  set = small_set();
  set.layout.axes[0].name = "fields";
  thrown<UsageError>([&] { field_tensors(set); });
  set = small_set();
  set.parameters = torch::Tensor();
  thrown<UsageError>([&] { field_tensors(set); });
}

struct Small {
  const char* simulator;
  std::vector<std::string> settings;
};
void PrintTo(const Small& small, std::ostream* stream) {
  *stream << small.simulator;
}

// Each kind at a size that takes no time.
const Small kSmall[] = {
    {"advection", {"points=20", "frames=5", "speed_max=2"}},
    {"blobs", {"points=16", "frames=4"}},
    {"burgers", {"points=20", "frames=4", "time=0.3"}},
    {"burgers", {"points=20", "frames=4", "viscosity=0.3"}},
    {"burgers",
     {"points=20", "frames=3", "time=0.3", "viscosity=0.3", "refine=1",
      "method=spectral"}},
    {"diffusion-reaction", {"points=8", "frames=3", "time=0.5"}},
    {"gray-scott", {"points=8", "frames=3", "time=20", "feed_max=0.04"}},
    {"heat-fields", {"points=9", "modes=5", "frames=4"}},
    {"heat-fields", {"points=6", "modes=3", "frames=3", "dims=3"}},
    {"shallow-water", {"points=8", "frames=3", "radius_max=1.5"}},
    {"vorticity",
     {"points=12", "modes=3", "frames=3", "time=1", "steps=5", "forcing=0.01",
      "variance=2000"}},
};

Tensors simulated(const Small& small, const std::vector<std::string>& more,
                  Precision precision = Precision::kFloat64) {
  const auto simulator = simulators().at(small.simulator).options();
  config::Schema schema;
  simulator->describe(schema);
  config::Document document;
  document.override_with("field.check=none");
  for (const auto& setting : small.settings) {
    document.override_with("field." + setting);
  }
  for (const auto& setting : more) document.override_with("field." + setting);
  document.apply_to(schema);
  simulator->validate();
  return simulator->simulate({.device = torch::kCPU, .precision = precision})
      .tensors;
}

class DataFieldSimulator : public ::testing::TestWithParam<Small> {};

TEST_P(DataFieldSimulator, ACaseDependsOnSeedAndNumberAlone) {
  const auto bits = [](const Tensors& all, int64_t n) {
    return std::pair{all.at("fields")[n], all.at("parameters")[n]};
  };
  const auto few = simulated(GetParam(), {"cases=5"});
  const auto expect_same = [&](const Tensors& others, int64_t here) {
    const auto [fields, parameters] = bits(few, 3);
    const auto [same, too] = bits(others, here);
    EXPECT_TRUE(torch::equal(fields, same));
    EXPECT_TRUE(torch::equal(parameters, too));
  };
  expect_same(simulated(GetParam(), {"cases=50"}), 3);
  expect_same(simulated(GetParam(), {"cases=6", "batch=2"}), 3);
  expect_same(simulated(GetParam(), {"cases=5", "batch=1"}), 3);
  expect_same(simulated(GetParam(), {"cases=2", "first=2"}), 1);
  const auto other = simulated(GetParam(), {"cases=5", "seed=1"});
  EXPECT_FALSE(torch::equal(few.at("fields"), other.at("fields")));
  EXPECT_FALSE(torch::equal(few.at("fields")[0], few.at("fields")[1]));
}

TEST_P(DataFieldSimulator, SingleAndDoublePrecisionAgree) {
  const auto twice = simulated(GetParam(), {"cases=3"});
  const auto once = simulated(GetParam(), {"cases=3"}, Precision::kFloat32);
  const auto scale = twice.at("fields").abs().max().item<double>();
  EXPECT_TRUE(testing::near(once.at("fields"), twice.at("fields"),
                            {1e-4, 1e-4 * scale}));
}

INSTANTIATE_TEST_SUITE_P(DataFieldSimulator, DataFieldSimulator,
                         ::testing::ValuesIn(kSmall), [](const auto& info) {
                           std::string name = info.param.simulator;
                           std::ranges::replace(name, '-', '_');
                           return fmt::format("{}_{}", name, info.index);
                         });

TEST(DataFieldSimulators, TooMuchForTheMemoryIsSaidBefore) {
  const auto said = thrown<UsageError>([] {
    simulated(kSmall[0], {"cases=10000000", "frames=100000"});
  });
  EXPECT_NE(said.find("GB"), std::string::npos) << said;
}

}  // namespace
}  // namespace propagator::data
