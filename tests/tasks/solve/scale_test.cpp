#include <torch/utils.h>

#include "propagator/tasks/solve/solve.h"
#include "tasks/training.h"
#include "testing.h"

// Problems in units of their own.

namespace propagator::tasks {
namespace {

using testing::kDouble;
using testing::near;
using testing::prepared_model;

constexpr testing::Tolerance kSame{1e-10, 1e-14};

run::Experiment rod(const std::string& domain, const std::string& numbers,
                    const std::string& more = "hard_constraints: no\n") {
  return run::Experiment(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: " +
          domain + "\n  fields: T\n  parameters: " + numbers +
          "\n  equations: T_t = a*T_xx + q\n  conditions:\n"
          "    - at t=0: T = hot*sin(pi*x/L)\n"
          "    - on x=0: T_x = -b*T\n    - on x=L: T = 0\n"
          "points: {per_axis: 6, sampling: grid, resample_every: 0}\n"
          "model: {name: pinn, width: 8}\n" +
          more,
      "test"));
}

run::Experiment in_metres(const std::string& more = "hard_constraints: no\n") {
  return rod("['x in [0, 0.02]', 't in [0, 600]']",
             "['L = 0.02', 'a = 2e-6', 'hot = 500', 'q = 0.1', 'b = 100']",
             more);
}

// The same in millimetres, minutes and megakelvins.
run::Experiment in_millimetres() {
  return rod("['x in [0, 20]', 't in [0, 10]']",
             "['L = 20', 'a = 120', 'hot = 5e-4', 'q = 6e-6', 'b = 0.1']");
}

train::Loss loss_of(const run::Experiment& e, torch::nn::Module& model) {
  return e.task().loss(model, data::Split::kTrain,
                       torch::arange(36, torch::kInt64));
}

TEST(TasksSolveScale, UnitsMakeNoDifferenceToATraining) {
  const auto e = in_metres(), other = in_millimetres();
  const auto model = prepared_model(e), same = prepared_model(other);
  const auto loss = loss_of(e, *model), again = loss_of(other, *same);
  EXPECT_TRUE(near(again.total, loss.total, kSame));
  ASSERT_EQ(again.terms.size(), loss.terms.size());
  for (size_t n = 0; n < loss.terms.size(); ++n) {
    EXPECT_TRUE(near(again.terms[n].value, loss.terms[n].value, kSame))
        << loss.terms[n].name;
    EXPECT_LT(loss.terms[n].value.item<double>(), 100) << loss.terms[n].name;
  }
  const auto places = torch::rand({5, 1, 2}, kDouble.options());
  const auto answer = models::as_field_net(*model).values(
      places * torch::tensor({0.02, 600.0}, kDouble.options()));
  const auto in_other = models::as_field_net(*same).values(
      places * torch::tensor({20.0, 10.0}, kDouble.options()));
  EXPECT_TRUE(near(in_other * 1e6, answer, kSame));
}

TEST(TasksSolveScale, WithoutItTheyDo) {
  const auto e = in_metres("hard_constraints: no\nscale: no\n");
  const auto model = prepared_model(e);
  EXPECT_GT(loss_of(e, *model).total.item<double>(), 1e4);
}

TEST(TasksSolveScale, ResidualsOfATestAreInTheUnitsOfTheProblem) {
  const auto e = in_metres(), other = in_millimetres();
  const auto model = prepared_model(e), same = prepared_model(other);
  const auto test = e.task().evaluate(*model, data::Split::kTest).numbers;
  const auto again = other.task().evaluate(*same, data::Split::kTest).numbers;
  // K/s and MK/min
  EXPECT_NEAR(again.at("residual").get<double>() * 1e6 / 60 /
                  test.at("residual").get<double>(),
              1, 1e-9);
}

TEST(TasksSolveScale, CheckSaysWhichUnitsAreInside) {
  const auto e = in_metres();
  const auto lines = e.task().inspect();
  EXPECT_EQ(std::ranges::count_if(lines,
                                  [](const std::string& line) {
                                    return line.starts_with(
                                        "scaled inside: x by 0.01, t by 300");
                                  }),
            1);
}

}  // namespace
}  // namespace propagator::tasks
