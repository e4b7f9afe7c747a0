#include "propagator/run/vtk_answers.h"

#include <torch/utils.h>

#include <cstring>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/named_table.h"
#include "propagator/run/predict.h"
#include "propagator/run/train.h"
#include "testing.h"

namespace propagator::run {
namespace {

using torch::Tensor;

// Between `from` and the next `to`.
std::string between(const std::string& text, const std::string& from,
                    const std::string& to) {
  const size_t start = text.find(from);
  if (start == std::string::npos) return "no " + from;
  const size_t begin = start + from.size();
  return text.substr(begin, text.find(to, begin) - begin);
}

// The numbers of an array of a file.
Tensor array_of(const std::string& file, const std::string& name,
                torch::ScalarType type = torch::kFloat64) {
  const auto element = between(file, "Name=\"" + name + "\"", "</DataArray>");
  const auto bytes =
      testing::from_base64(element.substr(element.find('>') + 1));
  uint64_t size = 0;
  if (bytes.size() < sizeof size) return {};
  std::memcpy(&size, bytes.data(), sizeof size);
  EXPECT_EQ(size, bytes.size() - sizeof size) << name;
  auto values = torch::empty({static_cast<int64_t>(size) / 8}, type);
  std::memcpy(values.data_ptr(), bytes.data() + sizeof size,
              std::min<size_t>(values.nbytes(), bytes.size() - sizeof size));
  return values;
}

class RunVtkAnswers : public ::testing::Test {
 protected:
  std::string written(const std::string& name,
                      const std::vector<data::Column>& variables,
                      const std::vector<data::Column>& answers) {
    write_vtk_answers(folder / name, variables, answers);
    return read_file(folder / name);
  }
  std::string refusal(const std::vector<data::Column>& variables) {
    try {
      write_vtk_answers(folder / "a.vti", variables,
                        {{"u", torch::zeros_like(variables[0].values)}});
    } catch (const UsageError& error) {
      EXPECT_NE(error.hint(), "");
      return error.what();
    }
    return "";
  }

  testing::TemporaryFolder folder;
};

Tensor numbers(std::vector<double> values) {
  return torch::tensor(values, torch::kFloat64);
}

TEST_F(RunVtkAnswers, PointsOfAGridAreAnImageInWhateverOrderTheyCome) {
  // x = 1, 1.5, 2 and y = 0, 3, rounded as text rounds; u = 10 x + y.
  const auto x = numbers({2, 1, 1.5000001, 1, 2, 1.5000001});
  const auto y = numbers({3, 3, 0, 0, 0, 3});
  const auto file =
      written("a.vti", {{"x", x}, {"y", y}}, {{"u", 10 * x + y}, {"v", -x}});
  EXPECT_EQ(between(file, "<VTKFile type=\"", "\""), "ImageData");
  EXPECT_EQ(between(file, "WholeExtent=\"", "\""), "0 2 0 1 0 0");
  EXPECT_EQ(between(file, "Origin=\"", "\""), "1 0 0");
  EXPECT_EQ(between(file, "Spacing=\"", "\""), "0.5 3 1");
  EXPECT_TRUE(testing::near(array_of(file, "u"),
                            numbers({10, 15, 20, 13, 18, 23}), {0, 1e-5}));
  EXPECT_TRUE(testing::near(array_of(file, "v"),
                            numbers({-1, -1.5, -2, -1, -1.5, -2}), {0, 1e-6}));
}

// Tensors of the grid's own shape; of four variables, one that is the same
// everywhere is no axis.
TEST_F(RunVtkAnswers, OneTimeOfThreeVariablesOfSpaceIsAnImage) {
  const auto grid = torch::meshgrid(
      {numbers({0, 1}), numbers({0, 1, 2}), numbers({5, 6})}, "ij");
  const auto t = torch::full_like(grid[0], 0.25);
  const std::vector<data::Column> variables{
      {"x", grid[0]}, {"y", grid[1]}, {"z", grid[2]}, {"t", t}};
  const auto u = grid[0] + 10 * grid[1] + 100 * grid[2];
  const auto file = written("a.vti", variables, {{"u", u}});
  EXPECT_EQ(between(file, "WholeExtent=\"", "\""), "0 1 0 2 0 1");
  EXPECT_EQ(between(file, "Origin=\"", "\""), "0 0 5");
  EXPECT_TRUE(
      torch::equal(array_of(file, "u"), u.permute({2, 1, 0}).flatten()));
  auto moving = variables;
  moving[3].values = t + 0.1 * grid[0];
  const auto message = refusal(moving);
  EXPECT_NE(message.find("points vary in x, y, z, t, more than 3 axes"),
            std::string::npos)
      << message;
}

TEST_F(RunVtkAnswers, PointsThatAreNoGridAreRefusedAsAnImage) {
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refusal({{"x", numbers({0, 1, 0})}, {"y", numbers({0, 0, 1})}}),
      "3 points do not fill a grid of 2 x 2 nodes");
  has(refusal({{"x", numbers({0, 1, 1, 0})}, {"y", numbers({0, 0, 0, 1})}}),
      "4 points do not fill a grid of 2 x 2 nodes");
  has(refusal({{"x", numbers({0, 1, 3})}}),
      "places of x are not evenly spaced");
}

TEST_F(RunVtkAnswers, AnyPointsAreVertices) {
  const auto x = numbers({0, 1, 3}), t = numbers({2, 0.5, 0.25});
  const auto u = numbers({7, std::nan(""), 9});
  const auto file = written("a.vtp", {{"x", x}, {"t", t}}, {{"u & \"v\"", u}});
  EXPECT_EQ(between(file, "<VTKFile type=\"", "\""), "PolyData");
  EXPECT_EQ(between(file, "NumberOfPoints=\"", "\""), "3");
  EXPECT_EQ(between(file, "NumberOfVerts=\"", "\""), "3");
  EXPECT_TRUE(torch::equal(array_of(file, "points").view({3, 3}),
                           torch::stack({x, t, torch::zeros_like(x)}, 1)));
  EXPECT_TRUE(torch::allclose(array_of(file, "u &amp; &quot;v&quot;"), u, 0, 0,
                              /*equal_nan=*/true));
  EXPECT_TRUE(torch::equal(array_of(file, "t"), t));
  EXPECT_TRUE(torch::equal(array_of(file, "connectivity", torch::kInt64),
                           torch::arange(3)));
  EXPECT_TRUE(torch::equal(array_of(file, "offsets", torch::kInt64),
                           torch::arange(1, 4)));
}

// From a run's folder, as the program does.
TEST_F(RunVtkAnswers, ARunWritesWhatItAnswersAtPoints) {
  const Experiment e(config::Document::from_text(
      "task: reconstruct\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  equations: [u_t = 0.1*u_xx]\n"
      "  exact: [u = 3 + exp(-0.1*pi^2*t)*sin(pi*x)]\n"
      "sensors: {count: 40}\nmodel: {name: radial_basis}\n"
      "points: {per_axis: 8, validation_per_axis: 5}\n"
      "eval: {per_axis: 20, quantities: [u, u_x]}\nreport: {page: no}\n",
      "test"));
  Observer silent;
  train(e, folder / "run", false, silent);
  const auto run = open(folder / "run");
  const auto grid = torch::meshgrid(
      {numbers({0, 0.25, 0.5, 0.75, 1}), numbers({0, 0.5, 1})}, "ij");
  data::write_csv(folder / "in.csv",
                  {{"x", grid[0].flatten()}, {"t", grid[1].flatten()}});
  const auto said = predict(run, folder / "in.csv", folder / "u.vti");
  EXPECT_NE(said.find("u_x (15)"), std::string::npos) << said;
  predict(run, folder / "in.csv", folder / "u.csv");
  const auto table = data::read_whole_table(folder / "u.csv");
  const auto file = read_file(folder / "u.vti");
  EXPECT_EQ(between(file, "WholeExtent=\"", "\""), "0 4 0 2 0 0");
  for (const std::string name : {"u", "u_x"}) {
    EXPECT_TRUE(testing::near(array_of(file, name),
                              table.at(name).view({5, 3}).t().flatten(),
                              {1e-6, 1e-6}));
  }
  predict(run, folder / "in.csv", folder / "u.vtp");
  EXPECT_TRUE(testing::near(array_of(read_file(folder / "u.vtp"), "u"),
                            table.at("u"), {1e-6, 1e-6}));
}

TEST_F(RunVtkAnswers, ModelsThatAnswerOtherwiseAreRefused) {
  using Ports = std::vector<tasks::Surrogate::Port>;
  const Ports points{{"x", {-1}, ""}},
      answers{{"x", {-1}, ""}, {"u", {-1}, ""}};
  EXPECT_NO_THROW(expect_points("a.vti", points, answers));
  const Ports fields{{"fields", {-1, -1, 26, 26}, ""}};
  const auto message = testing::thrown<UsageError>(
      [&] { expect_points("a.vti", fields, fields); });
  EXPECT_NE(message.find("VTK files hold fields at points"), std::string::npos)
      << message;
  EXPECT_THROW(expect_points("a.vti", points, {{"log_density", {-1}, ""}}),
               UsageError);
}

}  // namespace
}  // namespace propagator::run
