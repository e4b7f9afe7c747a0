#include "propagator/data/wake_layout.h"

#include <torch/utils.h>

#include "mat_files.h"
#include "propagator/core/error.h"
#include "propagator/data/mat.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::thrown;
using torch::Tensor;

const std::vector<std::string> kWakeVariables{"x", "y", "t"};
const std::vector<std::string> kWakeFields{"u", "v", "p"};

// A flow on a grid of 5 x 4 places and 3 times, as a list of points in any
// order, and as our own files have it.
class DataWakeLayout : public ::testing::Test {
 protected:
  enum class Order { kXFastest, kYFastest, kShuffled };

  Tensor order_of(Order order) const {  // (N) nodes, counted with y fastest
    const auto node = torch::arange(20, torch::kInt64);
    if (order == Order::kYFastest) return node;
    if (order == Order::kXFastest) {
      return node.reshape({5, 4}).t().contiguous().flatten();
    }
    return node * 7 % 20;
  }
  Tensors as_points(Order order) const {
    const auto nodes = torch::stack(
        {x_.unsqueeze(1).expand({5, 4}), y_.unsqueeze(0).expand({5, 4})}, -1);
    const auto chosen = order_of(order);
    const auto list = [&](const Tensor& field) {  // (N, T)
      return field.flatten(0, 1).index_select(0, chosen);
    };
    return {{"X_star", nodes.flatten(0, 1).index_select(0, chosen)},
            {"t", t_.unsqueeze(1)},
            {"U_star", torch::stack({list(u_), list(v_)}, 1)},
            {"p_star", list(p_)}};
  }
  Gridded as_our_own() const {
    save_tensors(
        folder_ / "own.h5",
        {{{"x", x_}, {"y", y_}, {"t", t_}, {"u", u_}, {"v", v_}, {"p", p_}},
         ""});
    return read_gridded(folder_ / "own.h5", kWakeVariables, kWakeFields);
  }
  static void expect_same(const Gridded& a, const Gridded& b) {
    ASSERT_EQ(a.shape(), b.shape());
    for (size_t d = 0; d < a.along.size(); ++d) {
      EXPECT_TRUE(torch::equal(a.along[d], b.along[d])) << d;
    }
    EXPECT_TRUE(torch::equal(a.fields, b.fields));
  }
  // What reading these arrays says.
  std::string refusal(
      const Tensors& arrays,
      const std::vector<std::string>& variables = kWakeVariables,
      const std::vector<std::string>& fields = kWakeFields) const {
    save_tensors(folder_ / "bad.h5", {arrays, ""});
    return thrown<DataError>(
        [&] { read_gridded(folder_ / "bad.h5", variables, fields); });
  }

  testing::TemporaryFolder folder_;
  const Tensor x_ = torch::linspace(1, 8, 5, torch::kFloat64);
  const Tensor y_ = torch::tensor({-2., -0.5, 0.5, 2.}, torch::kFloat64);
  const Tensor t_ = torch::tensor({0., 0.1, 0.2}, torch::kFloat64);
  const Tensor u_ = testing::random({5, 4, 3}, "u");
  const Tensor v_ = testing::random({5, 4, 3}, "v");
  const Tensor p_ = testing::random({5, 4, 3}, "p");
};

TEST_F(DataWakeLayout, PointsInAnyOrderAreTheSameGrid) {
  const auto own = as_our_own();
  for (const auto order :
       {Order::kXFastest, Order::kYFastest, Order::kShuffled}) {
    save_tensors(folder_ / "wake.h5", {as_points(order), ""});
    expect_same(read_gridded(folder_ / "wake.h5", kWakeVariables, kWakeFields),
                own);
  }
}

TEST_F(DataWakeLayout, TheMatFilesOfMatlabAreTheSameGrid) {
  if (!has_matio()) GTEST_SKIP() << "built without matio";
  const auto own = as_our_own();
  for (const auto kind : {testing::MatKind::k5, testing::MatKind::kCompressed5,
                          testing::MatKind::k73}) {
    for (const auto order : {Order::kXFastest, Order::kYFastest}) {
      testing::write_mat(folder_ / "wake.mat", as_points(order), kind);
      expect_same(
          read_gridded(folder_ / "wake.mat", kWakeVariables, kWakeFields), own);
    }
  }
}

TEST_F(DataWakeLayout, VariablesAndFieldsComeInTheProblemsOrder) {
  save_tensors(folder_ / "wake.h5", {as_points(Order::kXFastest), ""});
  const auto read =
      read_gridded(folder_ / "wake.h5", {"t", "y", "x"}, {"p", "v"});
  EXPECT_EQ(read.shape(), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_TRUE(torch::equal(read.fields.select(1, 0),
                           p_.permute({2, 1, 0}).contiguous().flatten()));
  EXPECT_TRUE(torch::equal(read.fields.select(1, 1),
                           v_.permute({2, 1, 0}).contiguous().flatten()));
}

// Rounding of places, as of numbers printed and read, makes no new ones.
TEST_F(DataWakeLayout, PlacesThatDifferByRoundingAreTheSame) {
  auto arrays = as_points(Order::kShuffled);
  arrays["X_star"] += 1e-9 * testing::random({20, 2}, "rounding");
  save_tensors(folder_ / "wake.h5", {arrays, ""});
  const auto read =
      read_gridded(folder_ / "wake.h5", kWakeVariables, kWakeFields);
  EXPECT_EQ(read.shape(), (std::vector<int64_t>{5, 4, 3}));
  EXPECT_TRUE(torch::equal(read.fields, as_our_own().fields));
  EXPECT_TRUE(testing::near(read.along[0], x_, {0, 1e-8}));
}

// MATLAB drops a last axis of one.
TEST_F(DataWakeLayout, OneTimeIsATime) {
  auto arrays = as_points(Order::kXFastest);
  arrays["t"] = t_.slice(0, 0, 1);
  arrays["U_star"] = arrays.at("U_star").select(2, 0).contiguous();
  arrays["p_star"] = arrays.at("p_star").slice(1, 0, 1).contiguous();
  save_tensors(folder_ / "wake.h5", {arrays, ""});
  const auto read =
      read_gridded(folder_ / "wake.h5", kWakeVariables, kWakeFields);
  EXPECT_TRUE(
      torch::equal(read.fields.select(1, 1), v_.select(2, 0).flatten()));
}

TEST_F(DataWakeLayout, PointsThatAreNoGridAreRefused) {
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  auto arrays = as_points(Order::kXFastest);
  arrays["X_star"] = testing::random({20, 2}, "scattered");
  contains(refusal(arrays),
           "the 20 points of X_star are no grid: they have 20 of x and 20 of y "
           "different places");
  arrays = as_points(Order::kXFastest);
  arrays["X_star"][3] = arrays["X_star"][4];
  contains(refusal(arrays), "are no grid");
  arrays = as_points(Order::kXFastest);
  arrays["X_star"][0][0] = std::nan("");
  contains(refusal(arrays), "expected finite numbers of X_star");
  arrays = as_points(Order::kXFastest);
  arrays["X_star"] = arrays["X_star"].slice(0, 0, 19).contiguous();
  contains(refusal(arrays), "the 19 points of X_star are no grid");
}

TEST_F(DataWakeLayout, ArraysThatDoNotFitAreRefused) {
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  auto arrays = as_points(Order::kXFastest);
  arrays["p_star"] = arrays["p_star"].t().contiguous();
  contains(refusal(arrays), "expected p_star of (20, 3), got (3, 20)");
  arrays = as_points(Order::kXFastest);
  arrays.erase("U_star");
  contains(refusal(arrays), "expected an array named 'U_star' beside 'X_star'");
  arrays = as_points(Order::kXFastest);
  arrays["t"] = torch::tensor({0., 0.2, 0.1}, torch::kFloat64);
  contains(refusal(arrays), "expected numbers of t that rise");
  arrays = as_points(Order::kXFastest);
  contains(refusal(arrays, {"x", "r", "t"}), "X_star has no r");
  contains(refusal(arrays, kWakeVariables, {"u", "v", "omega"}), "not omega");
  contains(refusal(arrays, kWakeVariables, {"w"}),
           "expected U_star of (20, 3, 3), got (20, 2, 3)");
  contains(refusal(arrays, {"x", "t"}),
           "X_star has 2 places of each point, and beside t the problem has 1");
}

}  // namespace
}  // namespace propagator::data
