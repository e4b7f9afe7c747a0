// Fields in the layouts that others publish theirs in, written here as they
// do.

#include <fstream>

#include "data/fields/stored_fields.h"
#include "mat_files.h"
#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/fields/field_source.h"
#include "propagator/data/mat.h"
#include "propagator/data/npy.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::random;
using testing::StoredFields;
using torch::Tensor;
using Names = std::vector<std::string>;

class DataFieldLayouts : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_ / name; }
  FieldSource source(const std::string& name,
                     const FieldChoices& choices = {}) const {
    return {path(name), choices};
  }
  void expect_said(const FieldSource& source, const std::string& text) const {
    EXPECT_NE(source.describe().find(text), std::string::npos)
        << source.describe();
  }
  testing::TemporaryFolder folder_;
};

Tensor some_values(torch::IntArrayRef shape, const std::string& name) {
  return random(shape, name).to(torch::kFloat32);
}

Names axis_names(const FieldSource& source) {
  Names names;
  for (const auto& axis : source.layout().axes) names.push_back(axis.name);
  return names;
}

TEST_F(DataFieldLayouts, PdeBenchInOneArray) {
  const auto u = some_values({5, 4, 16}, "u");
  {
    StoredFields file(path("advection.hdf5"));
    file.array("tensor", u);
    file.array("x-coordinate", torch::arange(16) * 0.5 + 0.25);
    file.array("t-coordinate", torch::arange(5) * 0.1);  // one more than frames
    file.number("/", "beta", 0.4);
  }
  const auto found = source("advection.hdf5");
  EXPECT_TRUE(
      torch::equal(found.values(1, 3), u.narrow(0, 1, 3).unsqueeze(-1)));
  EXPECT_TRUE(torch::equal(found.values(1, 2, 2, 2),
                           u.narrow(0, 1, 2).narrow(1, 2, 2).unsqueeze(-1)));
  EXPECT_EQ(found.frames(), 4);
  EXPECT_NEAR(found.layout().times[3].item<double>(), 0.3, 1e-6);
  EXPECT_EQ(found.layout().axes[0].at[0].item<double>(), 0.25);
  expect_said(found, "taken for PDEBench, one array");
  expect_said(found, "beta 0.4");
}

TEST_F(DataFieldLayouts, PdeBenchCompressible) {
  std::map<std::string, Tensor> all;
  {
    StoredFields file(path("flow.hdf5"));
    for (const auto* name : {"Vx", "Vy", "density", "pressure"}) {
      all[name] = some_values({3, 4, 6, 5}, name);
      file.array(name, all[name]);
    }
    for (const auto& [name, count] : {std::pair("x", 6), {"y", 5}, {"t", 5}}) {
      file.array(std::string(name) + "-coordinate", torch::arange(count));
    }
  }
  const auto found = source("flow.hdf5");
  EXPECT_EQ(found.layout().channels,
            (Names{"density", "pressure", "Vx", "Vy"}));
  EXPECT_EQ(found.nodes(), (std::vector<int64_t>{6, 5}));
  EXPECT_TRUE(torch::equal(
      found.values(0, 3),
      torch::stack({all["density"], all["pressure"], all["Vx"], all["Vy"]},
                   -1)));
}

// (time, first axis, second axis, channels) of each group.
struct Groups {
  std::vector<int64_t> shape, grid;  // grid: points of x, of y
  bool y_first;
};

TEST_F(DataFieldLayouts, PdeBenchGroupsAreCases) {
  int n = 0;
  for (const auto& [shape, grid, y_first] : {Groups{{3, 8, 8, 2}, {8, 8}, true},
                                             {{3, 8, 8, 1}, {8, 8}, false},
                                             {{3, 5, 8, 1}, {8, 5}, true},
                                             {{3, 8, 5, 2}, {8, 5}, false}}) {
    const auto name = fmt::format("groups{}.h5", n++);
    std::vector<Tensor> cases;
    {
      StoredFields file(path(name));
      for (int c = 0; c < 4; ++c) {
        const auto group = fmt::format("{:04}", c);
        cases.push_back(some_values(shape, group + name));
        file.array(group + "/data", cases.back());
        file.array(group + "/grid/x", torch::arange(grid[0]));
        file.array(group + "/grid/y", torch::arange(grid[1]));
        file.array(group + "/grid/t", torch::arange(3));
        file.text(group, "config", "sim:\n  n: 1\n");
      }
    }
    const auto found = source(name);
    EXPECT_EQ(found.cases(), 4);
    EXPECT_EQ(found.nodes(), grid);
    EXPECT_EQ(axis_names(found), (Names{"x", "y"}));
    const auto all = torch::stack(cases);
    EXPECT_TRUE(
        torch::equal(found.values(0, 4), y_first ? all.transpose(2, 3) : all));
    EXPECT_TRUE(torch::equal(
        found.values(2, 1, 1, 1),
        (y_first ? all.transpose(2, 3) : all).narrow(0, 2, 1).narrow(1, 1, 1)));
    expect_said(found, y_first ? "axes time, y, x" : "axes time, x, y");
  }
}

TEST_F(DataFieldLayouts, CasesOfOtherShapesAreRefused) {
  {
    StoredFields file(path("ragged.h5"));
    file.array("0000/data", some_values({3, 8, 8, 1}, "a"));
    file.array("0001/data", some_values({3, 8, 9, 1}, "b"));
  }
  EXPECT_NE(testing::thrown<DataError>([&] {
              source("ragged.h5");
            }).find("of '0001/data' (3, 8, 9, 1), got 9"),
            std::string::npos);
}

TEST_F(DataFieldLayouts, PdeBenchIncompressible) {
  const auto velocity = some_values({2, 5, 6, 6, 2}, "v"),
             particles = some_values({2, 5, 6, 6, 1}, "p");
  {
    StoredFields file(path("ns.h5"));
    file.array("velocity", velocity);
    file.array("particles", particles);
    file.array("force", some_values({2, 6, 6, 2}, "f"));
    file.array("t", (torch::arange(5) * 0.5).expand({2, 5}));
  }
  const auto found = source("ns.h5");
  EXPECT_EQ(found.layout().channels,
            (Names{"velocity_0", "velocity_1", "particles"}));
  EXPECT_EQ(found.layout().times[4].item<double>(), 2);
  EXPECT_TRUE(
      torch::equal(found.values(0, 2), torch::cat({velocity, particles}, -1)));
  // The force does not change in time.
  EXPECT_EQ(found.layout().constants, (Names{"force_0", "force_1"}));
  EXPECT_TRUE(torch::equal(found.constants(1, 1),
                           some_values({2, 6, 6, 2}, "f").narrow(0, 1, 1)));
  // Runs of older programs, which have not read it, name the channels.
  const auto as_before = source("ns.h5", {.channels = found.layout().channels});
  EXPECT_TRUE(as_before.layout().constants.empty());
  expect_said(as_before, "constant in time, and not read: force_0, force_1");
}

// Darcy's coefficient: an input, not among the fields.
TEST_F(DataFieldLayouts, PdeBenchCoefficientsAreInputs) {
  const auto u = some_values({4, 3, 6, 5}, "u"),
             nu = some_values({4, 6, 5}, "nu");
  {
    StoredFields file(path("darcy.hdf5"));
    file.array("tensor", u);
    file.array("nu", nu);
    file.array("x-coordinate", torch::arange(6));
    file.array("y-coordinate", torch::arange(5));
  }
  const auto found = source("darcy.hdf5");
  EXPECT_EQ(found.layout().channels, Names{"u"});
  EXPECT_EQ(found.layout().constants, Names{"nu"});
  EXPECT_TRUE(torch::equal(found.values(0, 4), u.unsqueeze(-1)));
  EXPECT_TRUE(
      torch::equal(found.constants(1, 2), nu.narrow(0, 1, 2).unsqueeze(-1)));
  expect_said(found, "; constant inputs nu;");
  // As older programs had it, whose runs name both.
  const auto before = source("darcy.hdf5", {.channels = {"u", "nu"}});
  EXPECT_TRUE(before.layout().constants.empty());
  EXPECT_EQ(before.values(0, 4).size(-1), 2);
  expect_said(before, "channels that stay as they are: nu");
  const auto none = source("darcy.hdf5", {.constants = {"none"}});
  EXPECT_EQ(none.layout().channels, Names{"u"});
  EXPECT_FALSE(none.constants(0, 1).defined());
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              source("darcy.hdf5", {.constants = {"mu"}});
            }).find("no mu that does not change in time"),
            std::string::npos);
}

TEST_F(DataFieldLayouts, TimeLastWhereTheTimesSaySo) {
  const auto u = some_values({5, 8, 8, 6}, "u");
  const Tensors arrays{{"u", u.to(torch::kFloat64)},
                       {"a", random({5, 8, 8}, "a")},
                       {"t", torch::arange(1., 7.).view({1, 6})}};
  save_tensors(path("ns.h5"), {arrays, ""});
  const auto expect = [&](const FieldSource& found) {
    EXPECT_TRUE(torch::equal(found.values(0, 5),
                             u.permute({0, 3, 1, 2}).unsqueeze(-1)));
    EXPECT_EQ(found.layout().times[5].item<double>(), 6);
  };
  expect(source("ns.h5"));
  // The same without `a`: any array, whose last axis has as many times.
  save_tensors(path("any.h5"),
               {{{"u", arrays.at("u")}, {"t", arrays.at("t")}}, ""});
  expect(source("any.h5"));
  if (!has_matio()) return;
  testing::write_mat(path("ns.mat"), arrays);
  expect(source("ns.mat"));
}

TEST_F(DataFieldLayouts, AFolderOfNpyFilesHasACaseInEach) {
  fs::create_directories(path("cases"));
  std::vector<Tensor> cases;
  for (const auto* name : {"b", "a", "c"}) {
    cases.push_back(some_values({4, 12, 10, 2}, name));
    std::ofstream(path("cases") / (std::string(name) + ".npy"),
                  std::ios::binary)
        << to_npy(cases.back());
  }
  std::ofstream(path("cases/t.npy"), std::ios::binary)
      << to_npy(torch::arange(4, torch::kFloat64) * 3);
  const auto found = source("cases");
  EXPECT_TRUE(torch::equal(found.values(0, 3),
                           torch::stack({cases[1], cases[0], cases[2]})));
  EXPECT_TRUE(
      torch::equal(found.values(2, 1, 1, 2)[0], cases[2].narrow(0, 1, 2)));
  EXPECT_EQ(found.layout().times[3].item<double>(), 9);
  const auto swapped = source("cases", {.axes = {"time", "y", "x", "channel"}});
  EXPECT_EQ(axis_names(swapped), (Names{"y", "x"}));
  std::ofstream(path("cases/d.npy"), std::ios::binary)
      << to_npy(torch::zeros({4, 12, 11, 2}));
  EXPECT_NE(testing::thrown<DataError>([&] {
              source("cases");
            }).find("expected 10 along axis 2 of 'd'"),
            std::string::npos);
}

TEST_F(DataFieldLayouts, SaysWhatCannotBeRead) {
  std::ofstream(path("data.pt")) << "PK";
  const auto pickle = testing::thrown<UsageError>([&] { source("data.pt"); });
  EXPECT_NE(pickle.find("ends in .h5"), std::string::npos) << pickle;
  { StoredFields(path("lzf.h5")).packed("u"); }
  const auto packed =
      testing::thrown<DataError>([&] { source("lzf.h5").values(0, 1); });
  EXPECT_NE(packed.find("'u' is compressed by the filter LZF (32000)"),
            std::string::npos)
      << packed;
  fs::create_directories(path("empty"));
  EXPECT_NE(testing::thrown<DataError>([&] {
              source("empty");
            }).find("expected .npy files"),
            std::string::npos);
}

TEST_F(DataFieldLayouts, KeysOverrideALayout) {
  {
    StoredFields file(path("advection.hdf5"));
    file.array("tensor", some_values({5, 4, 16}, "u"));
    file.array("x-coordinate", torch::arange(16));
  }
  const auto found = source("advection.hdf5", {.axes = {"x", "time", "case"}});
  EXPECT_EQ(found.cases(), 16);
  EXPECT_EQ(found.nodes(), std::vector<int64_t>{5});
}

}  // namespace
}  // namespace propagator::data
