#include <torch/utils.h>

#include "propagator/autodiff/point_gradients.h"
#include "propagator/core/error.h"
#include "propagator/tasks/solve/solve_loss.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// Residuals (R) with the root of the share that each has in the loss, and their
// Jacobian (n, R) if there is a buffer of parameters.
class WeighedResiduals {
 public:
  WeighedResiduals(int64_t count, const Tensor* flat, const Tensor& like)
      : flat_(flat) {
    all_.residuals = torch::empty({count}, like.options());
    if (flat_ == nullptr) return;
    all_.jacobian = torch::zeros({flat_->numel(), count}, flat_->options());
  }

  // Residuals (N, …) of one group, whose mean squares have a weight, from what
  // passed through the network since the last call; each depends on one of N
  // points.
  void add(const std::vector<Tensor>& residuals, double weight) {
    for (const auto& residual : residuals) {
      const double factor =
          std::sqrt(weight / static_cast<double>(residual.numel()));
      for (const auto& of_points : residual.flatten(1).unbind(1)) {
        add_column(of_points, factor);
      }
    }
    passed_.forget();
  }
  void expect_gradients() const {
    if (flat_ == nullptr || passed_.any()) return;
    throw ConfigError(
        "optimizer.kind",
        "levenberg_marquardt needs a network of linear layers with tanh or "
        "sine between them",
        "set model.name=pinn or siren");
  }

  const train::LeastSquares& all() const { return all_; }

 private:
  void add_column(const Tensor& residual, double factor) {
    const int64_t count = residual.numel();
    all_.residuals.narrow(0, end_, count).copy_(residual.detach() * factor);
    if (flat_ != nullptr && residual.requires_grad()) {
      passed_.add(residual, factor, *flat_,
                  all_.jacobian.narrow(1, end_, count));
    }
    end_ += count;
  }

  const Tensor* flat_;
  train::LeastSquares all_;
  autodiff::PointGradients passed_;
  int64_t end_ = 0;
};

int64_t count_of(const pde::Face& face) {
  const auto& condition = *face.condition;
  return face.windows.size(0) *
         (condition.is_periodic() ? std::ssize(condition.matched) : 1);
}

// Of terms that are squares alone: ConfigError if one is not.
int64_t count_of(const std::vector<OwnTerm>& terms, models::FieldNet& model) {
  const torch::NoGradGuard no_grad;
  int64_t count = 0;
  for (const auto& term : terms) {
    const auto left = term.left(model, data::Split::kTrain);
    if (left.added.defined()) {
      throw ConfigError("optimizer.kind",
                        fmt::format("levenberg_marquardt needs a loss of "
                                    "squares alone, and {} has a likelihood",
                                    term.name),
                        "set loss.readings=mse, or optimizer.kind=broyden");
    }
    for (const auto& residual : left.residuals) count += residual.numel();
  }
  return count;
}

}  // namespace

train::LeastSquares SolveLoss::least_squares(models::FieldNet& model,
                                             const SolvePoints& points,
                                             const Tensor* flat) const {
  if (is_learned()) {
    throw ConfigError(
        "optimizer.kind",
        "levenberg_marquardt needs a loss of squares alone, with weights that "
        "are not learned",
        "set optimizer.kind=lbfgs, or loss.balance=fixed");
  }
  const torch::AutoGradMode mode(flat != nullptr);
  const auto& windows = points.of(data::Split::kTrain);
  int64_t count = windows.size(0) * std::ssize(problem_->equations);
  for (const auto& face : points.faces()) count += count_of(face);
  count += count_of(own_, model);
  const auto weights = weights_.to(torch::kCPU, torch::kFloat64);
  const double* weight = weights.data_ptr<double>();
  WeighedResiduals all(count, flat, windows);
  const auto inside =
      in_order_of_time(residuals_.of_equations(model, windows), points);
  all.expect_gradients();
  all.add(inside, *weight);
  // One by one: a periodic one asks at two points for each residual.
  for (const auto& face : points.faces()) {
    all.add(residuals_.of_faces(model, {face}).front(), *++weight);
  }
  for (const auto& term : own_) {
    all.add(term.left(model, data::Split::kTrain).residuals, *++weight);
  }
  return all.all();
}

}  // namespace propagator::tasks
