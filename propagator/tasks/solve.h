#pragma once

#include <optional>

#include "propagator/autodiff/derivative_plan.h"
#include "propagator/autodiff/problem.h"
#include "propagator/data/collocation.h"
#include "propagator/models/field_net.h"
#include "propagator/train/task.h"

namespace propagator::tasks {

// The network that solves a problem unless another is chosen.
inline constexpr const char* kSolver = "spformer-small";

struct ProblemOptions {
  autodiff::ProblemText text;

  void describe(config::Schema& schema);
};

struct PointOptions {
  data::Sampling sampling = data::Sampling::kGrid;
  int64_t per_axis = 31;
  int64_t window = 2;
  double window_step = 1e-4;
  int64_t validation_per_axis = 20;

  void describe(config::Schema& schema);
};

struct SolveLossOptions {
  double equation = 1;
  double initial = 100;
  double boundary = 100;

  void describe(config::Schema& schema);
};

struct SolveEvalOptions {
  int64_t per_axis = 101;
  std::vector<std::string> quantities;

  void describe(config::Schema& schema);
};

// Task `solve`: given only the equations of fields and their conditions, what
// is the solution? Document 003. A network is trained until the equations'
// residuals at points of the domain, and those of the conditions on its faces,
// are small in the mean square.
class Solve : public train::Task {
 public:
  explicit Solve(std::unique_ptr<models::FieldNetOptions> model);

  void describe(config::Schema& schema) override;
  std::map<std::string, std::string> defaults() const override;
  void validate() override;
  std::vector<std::string> inspect() override;
  std::string mode() const override { return "honest"; }
  void prepare(int64_t seed, const Runtime& runtime) override;
  std::shared_ptr<torch::nn::Module> make_model() const override;
  void initialise(torch::nn::Module& model, int64_t seed) const override;
  int64_t size(data::Split split) const override;
  train::Loss loss(torch::nn::Module& model, data::Split split,
                   const torch::Tensor& positions) override;
  bool data_on_device() const override { return true; }
  nlohmann::json evaluate(torch::nn::Module& model, data::Split split) override;
  train::Summary summary(const nlohmann::json& result) const override;
  std::vector<train::Metric> metrics(
      const nlohmann::json& result) const override;
  report::LinePlot curves(const nlohmann::json& result) const override;
  void draw(torch::nn::Module& model, const nlohmann::json& result,
            int64_t cases, report::Report& report) override;
  std::string predict(torch::nn::Module& model, const std::string& input,
                      const std::string& output,
                      const Runtime& runtime) override;

  const autodiff::Problem& problem() const { return *problem_; }

 private:
  // How windows move so that a network's answer holds the derivatives of a
  // plan; made once, where the windows are.
  struct Motion {
    autodiff::DerivativePlan plan = {};
    torch::Tensor directions = {};  // (R, D)

    autodiff::Jet fields_at(models::FieldNet& model,
                            const torch::Tensor& windows) const;
  };
  // Points of one kind with what must vanish there.
  struct Term {
    std::string name;
    double weight;
    const autodiff::Condition* condition = nullptr;  // none: the equations
    bool first_token = false;  // of a window, where a condition at a time holds
    torch::Tensor windows = {};  // (N, T, D)
    torch::Tensor opposite =
        {};  // of a periodic condition, the same at its end
    Motion motion = {};
  };

  models::FieldDomain domain() const;
  data::Box box() const;
  // Points (N, D) as windows (N, T, D), on the device.
  torch::Tensor windows_of(const torch::Tensor& points) const;
  Term condition_term(const autodiff::Condition& condition, int64_t seed) const;
  Motion motion_for(const std::set<autodiff::Derivative>& derivatives) const;
  // What must vanish at the term's points, (N, T) each; and those of the
  // equations, from the fields there.
  std::vector<torch::Tensor> residuals(models::FieldNet& model,
                                       const Term& term,
                                       const torch::Tensor& windows) const;
  std::vector<torch::Tensor> equation_residuals(
      const autodiff::Jet& fields, const torch::Tensor& windows) const;
  torch::Tensor exact_at(const torch::Tensor& points) const;  // (N, F)
  // The largest residual that the exact solution leaves, beside its terms.
  double exact_residual() const;
  struct Answer {
    torch::Tensor fields;     // (N, F), on the CPU
    torch::Tensor residuals;  // (N, equations)
  };
  Answer answer_at(models::FieldNet& model, const torch::Tensor& points) const;

  ProblemOptions problem_options_;
  PointOptions points_;
  std::string model_name_ = kSolver;
  std::unique_ptr<models::FieldNetOptions> model_options_;
  SolveLossOptions loss_options_;
  SolveEvalOptions eval_options_;

  // Parsed by `validate`, which every use of the task passes.
  std::optional<autodiff::Problem> problem_;
  Runtime runtime_;
  Term equations_;
  torch::Tensor validation_;  // (N, T, D)
  std::vector<Term> conditions_;
};

}  // namespace propagator::tasks
