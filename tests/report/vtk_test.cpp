#include "propagator/report/vtk.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <set>

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::report {
namespace {

using testing::near;
using testing::TemporaryFolder;

// Between `from` and the next `to`.
std::string between(const std::string& text, const std::string& from,
                    const std::string& to) {
  const size_t start = text.find(from);
  if (start == std::string::npos) return "no " + from;
  const size_t begin = start + from.size();
  return text.substr(begin, text.find(to, begin) - begin);
}

torch::Tensor point_array(const std::string& file, const std::string& name,
                          torch::IntArrayRef shape) {
  const auto bytes = testing::from_base64(between(
      file, "Name=\"" + name + "\" format=\"binary\">", "</DataArray>"));
  auto values = torch::empty(shape, torch::kFloat32);
  uint64_t size = 0;
  if (bytes.size() < sizeof size) return values.fill_(NAN);
  std::memcpy(&size, bytes.data(), sizeof size);
  EXPECT_EQ(size, bytes.size() - sizeof size);
  EXPECT_EQ(size, values.nbytes());
  std::memcpy(values.data_ptr(), bytes.data() + sizeof size,
              std::min<size_t>(values.nbytes(), bytes.size() - sizeof size));
  return values;
}

FieldSeries example() {
  FieldSeries series;
  series.quantity = "temperature";
  series.cases = {"a", "b"};
  series.times = {0, 0.125, 2.5};
  series.x = {"x (m)", -1, 2};
  series.y = {"y (m)", 3, 1};  // row 0 at the top
  series.truth = testing::random({2, 3, 5, 4}, "truth");
  series.prediction = testing::random({2, 3, 5, 4}, "prediction");
  return series;
}

TEST(ReportVtk, FramesHoldTheFieldsWithYRising) {
  const TemporaryFolder folder;
  const auto series = example();
  EXPECT_EQ(write_vtk(series, 1, folder / "v"), folder / "v" / "series.pvd");
  const auto truth = series.truth[1].to(torch::kFloat32).flip(1);
  const auto prediction = series.prediction[1].to(torch::kFloat32).flip(1);
  for (int64_t t = 0; t < 3; ++t) {
    const auto file =
        read_file(folder / "v" / ("frame_000" + std::to_string(t) + ".vti"));
    EXPECT_EQ(between(file, "WholeExtent=\"", "\""), "0 3 0 4 0 0");
    EXPECT_EQ(between(file, "<Piece Extent=\"", "\""), "0 3 0 4 0 0");
    EXPECT_EQ(between(file, "Origin=\"", "\""), "-1 1 0");
    EXPECT_EQ(between(file, "Spacing=\"", "\""), "1 0.5 1");
    EXPECT_EQ(between(file, "header_type=\"", "\""), "UInt64");
    EXPECT_TRUE(
        near(point_array(file, "truth", {5, 4}), truth[t], testing::kFloat32));
    EXPECT_TRUE(near(point_array(file, "prediction", {5, 4}), prediction[t],
                     testing::kFloat32));
    EXPECT_TRUE(near(point_array(file, "error", {5, 4}),
                     prediction[t] - truth[t], testing::kFloat32));
  }
}

TEST(ReportVtk, RowsThatRiseStay) {
  const TemporaryFolder folder;
  auto series = example();
  std::swap(series.x.first, series.x.last);
  std::swap(series.y.first, series.y.last);
  write_vtk(series, 0, folder / "v");
  const auto file = read_file(folder / "v" / "frame_0002.vti");
  EXPECT_EQ(between(file, "Origin=\"", "\""), "-1 1 0");
  EXPECT_TRUE(near(point_array(file, "truth", {5, 4}),
                   series.truth[0][2].to(torch::kFloat32).flip(1),
                   testing::kFloat32));
}

TEST(ReportVtk, AxesWithoutExtentHaveUnitSteps) {
  const TemporaryFolder folder;
  auto series = example();
  series.x = series.y = {};
  write_vtk(series, 0, folder / "v");
  const auto file = read_file(folder / "v" / "frame_0000.vti");
  EXPECT_EQ(between(file, "Origin=\"", "\""), "0 0 0");
  EXPECT_EQ(between(file, "Spacing=\"", "\""), "1 1 1");
}

TEST(ReportVtk, ListHasTheTimes) {
  const TemporaryFolder folder;
  std::string list = read_file(write_vtk(example(), 0, folder / "v"));
  std::set<std::string> names{"series.pvd"};
  for (const std::string time : {"0", "0.125", "2.5"}) {
    EXPECT_EQ(between(list, "timestep=\"", "\""), time);
    list.erase(0, list.find("timestep=\"") + 1);
    names.insert(between(list, "file=\"", "\""));
  }
  EXPECT_EQ(list.find("timestep=\""), std::string::npos);
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder / "v")) {
    found.insert(entry.path().filename().string());
  }
  EXPECT_EQ(found, names);
}

TEST(ReportVtk, AGridOfThreeVariables) {
  const TemporaryFolder folder;
  const auto u = testing::random({1, 2, 3, 4}, "u");  // T, Z, Y, X
  write_vtk({.times = {0.5},
             .axes = {{"x", 0, 3}, {"y", 1, 5}, {"z", -1, 1}},
             .arrays = {{"u", u}, {"v", 2 * u}}},
            folder / "v");
  const auto file = read_file(folder / "v" / "frame_0000.vti");
  EXPECT_EQ(between(file, "WholeExtent=\"", "\""), "0 3 0 2 0 1");
  EXPECT_EQ(between(file, "Origin=\"", "\""), "0 1 -1");
  EXPECT_EQ(between(file, "Spacing=\"", "\""), "1 2 2");
  EXPECT_EQ(between(file, "Scalars=\"", "\""), "u");
  EXPECT_TRUE(near(point_array(file, "v", {2, 3, 4}),
                   2 * u[0].to(torch::kFloat32), testing::kFloat32));
}

TEST(ReportVtk, FolderThatExistsStaysAsItIs) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "v" / "note", "mine");
  EXPECT_THROW(write_vtk(example(), 0, folder / "v"), UsageError);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "v"), {}), 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace propagator::report
