// Files of The Well.

#include "data/fields/stored_fields.h"
#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/fields/field_dataset.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::StoredFields;
using torch::Tensor;
using Names = std::vector<std::string>;

constexpr int64_t kFrames = 3, kX = 6, kY = 5;

struct Stored {
  Tensor density, pattern, velocity, stress, viscosity;
};

class DataWell : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_ / name; }

  static Tensor some(torch::IntArrayRef shape, const std::string& name) {
    return testing::random(shape, name).to(torch::kFloat32);
  }

  static void varies(StoredFields& file, const std::string& array, bool sample,
                     bool time, const std::vector<bool>& dims) {
    file.flags(array, "sample_varying", {sample}, true);
    file.flags(array, "time_varying", {time}, true);
    file.flags(array, "dim_varying", dims);
  }

  Stored write(const std::string& name, int64_t cases,
               const std::string& density = "density",
               const std::string& seed = "") const {
    Stored stored{some({cases, kFrames, kX, kY}, seed + "density"),
                  some({kY}, seed + "pattern"),
                  some({cases, kFrames, kX, kY, 2}, seed + "velocity"),
                  some({cases, kFrames, kX, kY, 2, 2}, seed + "stress"),
                  some({cases}, seed + "viscosity")};
    fs::create_directories(path(name).parent_path());
    StoredFields file(path(name));
    file.text("/", "dataset_name", "cavities");
    file.number("/", "n_spatial_dims", 2);
    file.number("/", "n_trajectories", static_cast<double>(cases));
    file.texts("/", "simulation_parameters", {"viscosity", "gravity"});
    file.array("dimensions/time",
               (torch::arange(kFrames) * 2 + 7).expand({cases, kFrames}));
    file.array("dimensions/x", torch::arange(kX));
    file.array("dimensions/y", torch::arange(kY) * 0.5);
    file.texts("dimensions", "spatial_dims", {"x", "y"});
    file.array("t0_fields/" + density, stored.density);
    varies(file, "t0_fields/" + density, true, true, {true, true});
    file.array("t0_fields/pattern", stored.pattern);
    varies(file, "t0_fields/pattern", false, false, {false, true});
    file.texts("t0_fields", "field_names", {density, "pattern"});
    file.array("t1_fields/velocity", stored.velocity);
    file.texts("t1_fields", "field_names", {"velocity"});
    file.array("t2_fields/stress", stored.stress);
    varies(file, "t2_fields/stress", true, true, {true, true});
    file.texts("t2_fields", "field_names", {"stress"});
    file.array("scalars/viscosity", stored.viscosity);
    file.array("scalars/gravity", torch::tensor(9.81));
    file.flags("scalars/gravity", "sample_varying", {false}, true);
    file.texts("scalars", "field_names", {"viscosity", "gravity"});
    file.group("boundary_conditions/around");
    file.text("boundary_conditions/around", "bc_type", "PERIODIC");
    file.text("boundary_conditions/around", "associated_dims", "x");
    auto ends = torch::zeros({kY});
    ends[0] = 1;
    file.mask("boundary_conditions/below/mask", ends);
    file.text("boundary_conditions/below", "bc_type", "wall");
    file.texts("boundary_conditions/below", "associated_dims", {"y"});
    return stored;
  }
  testing::TemporaryFolder folder_;
};

// (N, T, x, y, channels) of what was written, in the order of channels.
Tensor expected_values(const Stored& s) {
  return torch::cat({s.density.unsqueeze(-1), s.velocity, s.stress.flatten(4)},
                    -1);
}

TEST_F(DataWell, FieldsOfAllOrdersAreChannels) {
  const auto stored = write("a.hdf5", 4);
  const FieldSource found(path("a.hdf5"), {});
  const auto& layout = found.layout();
  EXPECT_EQ(layout.channels,
            (Names{"density", "velocity_x", "velocity_y", "stress_xx",
                   "stress_xy", "stress_yx", "stress_yy"}));
  EXPECT_TRUE(torch::equal(found.values(0, 4), expected_values(stored)));
  EXPECT_TRUE(
      torch::equal(found.values(2, 1, 1, 2),
                   expected_values(stored).narrow(0, 2, 1).narrow(1, 1, 2)));
  EXPECT_EQ(layout.axes[0].boundary, Boundary::kPeriodic);
  EXPECT_EQ(layout.axes[1].boundary, Boundary::kWall);
  EXPECT_EQ(layout.axes[1].at[3].item<double>(), 1.5);
  EXPECT_TRUE(
      torch::equal(layout.times, torch::tensor({0., 2., 4.}, torch::kFloat64)));
  EXPECT_EQ(layout.parameters, (Names{"viscosity", "gravity"}));
  EXPECT_TRUE(torch::equal(found.parameters().select(1, 0),
                           stored.viscosity.to(torch::kFloat64)));
  EXPECT_NEAR(found.parameters()[3][1].item<double>(), 9.81, 1e-6);
  const auto text = found.describe();
  EXPECT_NE(text.find("The Well, cavities"), std::string::npos) << text;
  EXPECT_NE(text.find("; constant inputs pattern;"), std::string::npos) << text;
}

TEST_F(DataWell, FieldsWithoutTimeAreInputs) {
  const auto stored = write("a.hdf5", 4);
  const FieldSource found(path("a.hdf5"), {});
  EXPECT_EQ(found.layout().constants, Names{"pattern"});
  const auto pattern = stored.pattern.expand({4, kX, kY}).unsqueeze(-1);
  EXPECT_TRUE(torch::equal(found.constants(0, 4), pattern));
  // A run that was made with all of them as channels keeps them.
  const Names all{"a", "b", "c", "d", "e", "f", "g", "h"};
  const FieldSource before(path("a.hdf5"), {.channels = all});
  EXPECT_TRUE(before.layout().constants.empty());
  EXPECT_TRUE(torch::equal(before.values(0, 4).select(-1, 1),
                           stored.pattern.expand({4, kFrames, kX, kY})));
}

TEST_F(DataWell, AWallInsideIsNoEnd) {
  write("a.h5", 2);
  const auto path_b = path("b.h5");
  {
    StoredFields file(path_b);
    file.array("dimensions/time", torch::arange(2));
    file.array("dimensions/x", torch::arange(4));
    file.texts("dimensions", "spatial_dims", {"x"});
    auto u = torch::ones({2, 2, 4});
    u[1][1][2] = std::nan("");
    file.array("t0_fields/u", u);
    file.mask("boundary_conditions/wall/mask", torch::tensor({0, 1, 1, 0}));
    file.text("boundary_conditions/wall", "bc_type", "WALL");
    file.texts("boundary_conditions/wall", "associated_dims", {"x"});
  }
  const FieldSource found(path_b, {});
  EXPECT_EQ(found.layout().axes[0].boundary, Boundary::kOpen);
  // What is missing counts as 0.
  EXPECT_EQ(found.values(0, 2).sum().item<double>(), 15);
  EXPECT_EQ(found.values(1, 1)[0][1][2].item<double>(), 0);
}

TEST_F(DataWell, AFoldersOwnSplitHolds) {
  const auto first = write("set/data/train/a.hdf5", 3, "density", "1"),
             second = write("set/data/train/b.h5", 2, "density", "2"),
             valid = write("set/data/valid/a.hdf5", 1, "density", "3"),
             test = write("set/data/test/a.hdf5", 2, "density", "4");
  const FieldSource found(path("set"), {});
  EXPECT_EQ(found.cases(), 8);
  EXPECT_NE(found.describe().find("4 files with a split of their own: 5/1/2"),
            std::string::npos)
      << found.describe();
  const Runtime runtime;
  const FieldDataset data(found, found.split(3), runtime);
  EXPECT_EQ(data.cases(Split::kTrain), 5);
  EXPECT_EQ(data.cases(Split::kTest), 2);
  EXPECT_TRUE(torch::equal(
      data.range(Split::kTrain, 0, 5).frames,
      torch::cat({expected_values(first), expected_values(second)})));
  EXPECT_TRUE(torch::equal(data.range(Split::kValidation, 0, 1).frames,
                           expected_values(valid)));
  EXPECT_TRUE(torch::equal(data.range(Split::kTest, 0, 2).frames,
                           expected_values(test)));
  fs::remove_all(path("set/data/valid"));
  EXPECT_NE(testing::thrown<DataError>([&] {
              FieldSource(path("set"), {});
            }).find("expected .h5 or .hdf5 files in"),
            std::string::npos);
}

TEST_F(DataWell, FilesOfOneSetAgree) {
  write("set/train/a.h5", 3);
  write("set/valid/a.h5", 1);
  write("set/test/a.h5", 1, "height");
  EXPECT_NE(testing::thrown<DataError>([&] {
              FieldSource(path("set"), {});
            }).find("not those of the files before it"),
            std::string::npos);
}

TEST_F(DataWell, NamesArePlainText) {
  write("a.h5", 2, "\x1b[31mred");
  const auto error =
      testing::thrown<DataError>([&] { FieldSource(path("a.h5"), {}); });
  EXPECT_NE(error.find("expected plain names of channels"), std::string::npos)
      << error;
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace propagator::data
