#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "propagator/pde/residual/balance.h"
#include "propagator/pde/residual/residuals.h"
#include "propagator/tasks/solve/saved_state.h"
#include "propagator/tasks/solve/solve_points.h"
#include "propagator/train/trainable.h"

namespace propagator::tasks {

// A term of the loss beside those of the problem, such as one of readings.
struct OwnTerm {
  // Its loss is the mean square of the residuals and what is added to it.
  struct Left {
    std::vector<torch::Tensor> residuals;
    torch::Tensor added = {};  // a scalar; undefined: nothing
  };

  std::string name;
  double weight = 1;
  std::function<Left(models::FieldNet&, data::Split)> left;
};

// What the training of a solution descends on: the weighted sum of the mean
// squares of residuals, those of the equations together and those of each
// learned condition. Weights may be balanced or learned as training goes on,
// and points may count by how well those at earlier times are solved.
class SolveLoss {
 public:
  SolveLoss() = default;
  // Problem and conditions must outlive it. ConfigError if the options
  // contradict one another or the problem.
  SolveLoss(const pde::Problem& problem, const SolveConditions& conditions,
            const SolveLossOptions& options, std::vector<OwnTerm> own = {});
  // Before it is asked for anything but names and the weights of a new model.
  void prepare(pde::Derivatives derivatives, int64_t seed,
               const Runtime& runtime, const pde::ProblemScale& scale = {});

  // Its terms of initial conditions hold no more.
  void leave_out_initial();

  // Of time, that causality takes; 0: none.
  int64_t slabs() const { return options_.causality > 0 ? options_.slabs : 0; }
  // Equation first, then the conditions that are learned, then the own ones.
  const std::vector<std::string>& term_names() const { return names_; }
  const pde::Residuals& residuals() const { return residuals_; }

  // Weights that are learned with the network, as the logarithms of variances:
  // weight = 1 / variance. They begin with those of the configuration.
  static constexpr const char* kLogVariances = "log_variances";
  train::NamedTensors learned() const;

  // At all points of the split, or at `positions` among them.
  train::Loss at(torch::nn::Module& model, const SolvePoints& points,
                 data::Split split, const torch::Tensor& positions);
  // The same of all training points as a sum of squares (train/trainable.h).
  train::LeastSquares least_squares(models::FieldNet& model,
                                    const SolvePoints& points,
                                    const torch::Tensor* flat) const;
  // Counts points and balances weights where it is time to.
  void begin_step(models::FieldNet& model, const SolvePoints& points,
                  int64_t step);
  // Weights that have changed.
  train::NamedTensors state() const;
  void restore(const train::NamedTensors& saved);

 private:
  void expect_weights() const;  // ConfigError
  void set_weights();           // as configured
  bool is_learned() const {
    return options_.balance == pde::Balance::kUncertainty;
  }
  // In training. An equation alone has nothing to be balanced with.
  bool weights_change() const {
    return options_.balance != pde::Balance::kFixed && names_.size() > 1;
  }
  void order_in_time(models::FieldNet& model, const SolvePoints& points);
  void rebalance(models::FieldNet& model, const SolvePoints& points,
                 int64_t step);
  // What the equations leave at training points, all if no positions are
  // given, times the root of how much each point counts.
  std::vector<torch::Tensor> in_order_of_time(
      std::vector<torch::Tensor> residuals, const SolvePoints& points,
      const std::optional<torch::Tensor>& positions = {}) const;

  const pde::Problem* problem_ = nullptr;
  SolveLossOptions options_;
  std::vector<OwnTerm> own_;
  std::vector<std::string> names_;
  std::vector<double> configured_;  // weights of the terms
  std::vector<bool> initial_;       // which of them are of initial conditions
  int64_t seed_ = 0;
  Runtime runtime_;
  pde::Residuals residuals_;
  pde::MeanSquares mean_squares_;
  torch::Tensor weights_;        // of the terms, in training
  torch::Tensor fixed_weights_;  // and in validation
  torch::Tensor log_variances_;  // of the terms, if they are learned
  torch::Tensor counts_;         // (slabs), how much its points count
};

}  // namespace propagator::tasks
