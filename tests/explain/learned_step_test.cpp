#include "propagator/explain/learned_step.h"

#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <numbers>

#include "propagator/core/error.h"
#include "propagator/models/field_forecaster.h"
#include "propagator/physics/fields/advection.h"
#include "propagator/physics/fields/heat_fields.h"
#include "testing.h"

namespace propagator::explain {
namespace {

using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::thrown;
using torch::Tensor;

constexpr double kAllWork = 1e30;

// Each answer is a sum of weights times neighbours on a line, frame by frame:
// weights (given, 3). `curved` adds the square of the node itself.
class LinearNet : public models::WindowNet {
 public:
  LinearNet(const models::FrameShape& shape, Tensor weights, double curved = 0)
      : WindowNet(shape), weights_(std::move(weights)), curved_(curved) {}

 protected:
  Tensor answer(const Tensor& inputs) override {  // (M, nodes, given)
    auto sum = curved_ * inputs.narrow(-1, shape().given - 1, 1).square();
    for (int64_t k = 0; k < shape().given; ++k) {
      for (int64_t d = -1; d <= 1; ++d) {
        sum = sum +
              weights_[k][d + 1] * torch::roll(inputs.narrow(-1, k, 1), d, 1);
      }
    }
    return sum;
  }

 private:
  Tensor weights_;
  double curved_;
};

struct Line {
  Line(int64_t nodes, const Tensor& weights, models::Answer answer,
       double curved = 0)
      : model(std::make_shared<LinearNet>(
                  models::FrameShape{.periodic = {true},
                                     .channels = 1,
                                     .given = weights.size(0)},
                  weights, curved),
              answer, 0) {
    model.to(torch::kFloat64);
    subject.window = random({weights.size(0), nodes, 1}, "window");
    subject.ensemble = random({3, nodes, 1}, "ensemble");
    subject.work = 1;
    subject.axes = {{.label = "x", .first = 0, .last = 1}};
    subject.channels = {"u"};
    subject.step = [this](const Tensor& windows) {
      return model
          .forward(windows, torch::zeros({windows.size(0), 0}, torch::kFloat64))
          .select(1, 0);
    };
  }
  models::FieldForecaster model;
  tasks::StepSubject subject;
};

// (n, n): answer i has w[d + 1] of node i - d.
Tensor circulant(int64_t n, const Tensor& w) {
  auto matrix = torch::zeros({n, n}, torch::kFloat64);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t d = -1; d <= 1; ++d) matrix[i][(i - d + n) % n] += w[d + 1];
  }
  return matrix;
}

Tensor tensor_of(const std::vector<double>& numbers) {
  return torch::tensor(numbers, torch::kFloat64);
}

TEST(ExplainLearnedStep, IsTheMatrixOfALinearNetwork) {
  const auto w = tensor_of({0.2, 0.5, 0.1});
  for (const auto answer : {models::Answer::kField, models::Answer::kChange}) {
    Line line(12, w.unsqueeze(0), answer);
    const auto step = learn_step(line.subject, {}, kAllWork);
    ASSERT_TRUE(step.every_cell());
    auto exact = circulant(12, w);
    // A network of changes has the identity beside its own answer.
    if (answer == models::Answer::kChange) exact.diagonal().add_(1);
    EXPECT_TRUE(near(step.rows.select(1, 0), exact, testing::kFloat64));
    EXPECT_FALSE(step.truth.defined());
    EXPECT_EQ(step.to_json().count("cell_error"), 0);
  }
}

// λ_m = Σ_d w_d e^{-2πi m d / n}.
TEST(ExplainLearnedStep, EigenvaluesAreThoseOfACirculant) {
  const auto w = tensor_of({0.2, 0.5, 0.1});
  Line line(10, w.unsqueeze(0), models::Answer::kField);
  const auto step = learn_step(line.subject, {}, kAllWork);
  ASSERT_EQ(step.eigenvalues.size(0), 10);
  for (int64_t m = 0; m < 10; ++m) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(m) / 10;
    const auto exact = torch::complex(tensor_of({0.5 + 0.3 * std::cos(angle)}),
                                      tensor_of({0.1 * std::sin(angle)}));
    EXPECT_LT((step.eigenvalues - exact).abs().min().item<double>(), 1e-12);
  }
  EXPECT_NEAR(step.largest(), 0.8, 1e-12);
  EXPECT_EQ(step.to_json().at("growing_eigenvalues"), 0);
}

// f_2 = a f_1 + b f_0 at each node: λ² = a λ + b, here 1.2 and -0.5.
TEST(ExplainLearnedStep, EigenvaluesOfWindowsAreThoseOfTheRecurrence) {
  const auto w = torch::zeros({2, 3}, torch::kFloat64);
  w[0][1] = 0.6;
  w[1][1] = 0.7;
  Line line(6, w, models::Answer::kField);
  const auto step = learn_step(line.subject, {}, kAllWork);
  const auto real = std::get<0>(torch::real(step.eigenvalues).sort());
  EXPECT_TRUE(near(real.narrow(0, 0, 6),
                   torch::full({6}, -0.5, torch::kFloat64), {1e-7, 1e-7}));
  EXPECT_TRUE(near(real.narrow(0, 6, 6), torch::full({6}, 1.2, torch::kFloat64),
                   {1e-7, 1e-7}));
  EXPECT_EQ(step.to_json().at("growing_eigenvalues"), 6);
  EXPECT_NE(step.verdict().find("can grow"), std::string::npos);
}

// A network that shifts by a cell, and the physics that does.
TEST(ExplainLearnedStep, APerfectStepHasNoError) {
  const auto w = tensor_of({0, 0, 1});  // from the node on the left
  Line line(9, w.unsqueeze(0), models::Answer::kField);
  line.subject.truth = [](const Tensor& u) {
    return physics::shifted(u.squeeze(-1), {1.0 / 9}).unsqueeze(-1);
  };
  const auto step = learn_step(line.subject, {4}, kAllWork);
  EXPECT_LT(step.at_cells.learned, 1e-12);
  EXPECT_LT(step.in_data.learned, 1e-12);
  // Two columns of the identity and a permutation have no place in common.
  EXPECT_NEAR(step.at_cells.kept, std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(step.true_largest(), 1, 1e-12);
  EXPECT_TRUE(near(step.true_eigenvalues.abs(),
                   torch::ones({9}, torch::kFloat64), testing::kFloat64));
}

// With two given frames a network may take all from the first one: its step is
// right although the derivative by the last frame alone is 0.
TEST(ExplainLearnedStep, FramesOfAWindowBelongTogether) {
  const auto w = torch::zeros({2, 3}, torch::kFloat64);
  w[0][1] = 1;  // the first frame
  Line line(8, w, models::Answer::kField);
  line.subject.truth = [](const Tensor& u) {  // half a turn: twice is nothing
    return physics::shifted(u.squeeze(-1), {0.5}).unsqueeze(-1);
  };
  const auto step = learn_step(line.subject, {}, kAllWork);
  EXPECT_LT(step.at_cells.learned, 1e-12);
  EXPECT_NEAR(step.last_frame, 1, 1e-12);
  const auto json = step.to_json();
  EXPECT_EQ(json.at("norm_per_frame")[1], 0);
  EXPECT_NEAR(json.at("norm_per_frame")[0], std::sqrt(8.0), 1e-12);
}

// P = J_0 + J_1 A of a network that is neither linear nor right, against
// central differences; the error by hand.
TEST(ExplainLearnedStep, RowsAreDerivatives) {
  Line line(7, random({2, 3}, "weights"), models::Answer::kChange, 0.8);
  const auto carry = [](const Tensor& u) {
    return physics::shifted(u.squeeze(-1), {0.2}).unsqueeze(-1);
  };
  line.subject.truth = carry;
  const auto step = learn_step(line.subject, {}, kAllWork);
  const torch::NoGradGuard no_grad;
  const auto units = torch::eye(7, torch::kFloat64).unsqueeze(-1);
  const double h = 1e-6;
  const auto response = [&](const Tensor& change) {  // (7, 2, 7, 1)
    return ((line.subject.step(line.subject.window + h * change) -
             line.subject.step(line.subject.window - h * change)) /
            (2 * h))
        .squeeze(-1)
        .t();
  };
  const auto carried = response(torch::stack({units, carry(units)}, 1));
  EXPECT_TRUE(near(step.carried, carried, testing::kDifferences));
  const auto last =
      response(torch::stack({torch::zeros_like(units), units}, 1));
  EXPECT_TRUE(near(step.rows.select(1, 1), last, testing::kDifferences));
  const auto truth = carry(carry(units)).squeeze(-1).t();
  EXPECT_NEAR(step.at_cells.learned,
              ((carried - truth).norm() / truth.norm()).item<double>(), 1e-7);
}

// Few cells where all are too much work, the wanted one among them.
TEST(ExplainLearnedStep, LooksAtAsManyCellsAsThereIsWorkFor) {
  Line line(100, tensor_of({0.2, 0.5, 0.1}).unsqueeze(0),
            models::Answer::kField);
  const auto step = learn_step(line.subject, {41}, 20);
  ASSERT_EQ(step.cells.size(), 20);
  EXPECT_EQ(step.cells[static_cast<size_t>(step.shown)], 41);
  EXPECT_FALSE(step.eigenvalues.defined());
  EXPECT_TRUE(near(step.rows[step.shown][0],
                   circulant(100, tensor_of({0.2, 0.5, 0.1}))[41],
                   testing::kFloat64));
  EXPECT_NEAR(learn_step(line.subject, {}, 1).cells.size(), 8, 0);
}

TEST(ExplainLearnedStep, ACellThatIsNotThereIsAnError) {
  Line line(5, tensor_of({0, 1, 0}).unsqueeze(0), models::Answer::kField);
  for (const std::vector<int64_t>& cell :
       {std::vector<int64_t>{5}, {-1}, {1, 1}}) {
    EXPECT_NE(thrown<UsageError>([&] {
                learn_step(line.subject, cell, kAllWork);
              }).find("expected a cell of 1 place, 0 to 4, got"),
              std::string::npos);
  }
}

TEST(ExplainLearnedStep, DrawsWhatThereIs) {
  const testing::TemporaryFolder folder;
  Line line(6, random({2, 3}, "weights"), models::Answer::kChange);
  line.subject.truth = [](const Tensor& u) { return 0.9 * u; };
  report::Report page(folder.path(), "page.html", "a", "b");
  draw(learn_step(line.subject, {}, kAllWork), line.subject, page);
  for (const char* name :
       {"step-matrix", "step-cell", "step-window", "step-eigenvalues"}) {
    EXPECT_TRUE(std::filesystem::exists(
        folder / ("figures/" + std::string(name) + ".gp")))
        << name;
  }
}

}  // namespace
}  // namespace propagator::explain
