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

  // Residuals of one group, whose mean squares have a weight, from what passed
  // through the network since the last call.
  void add(const std::vector<Tensor>& residuals, double weight) {
    for (const auto& residual : residuals) {
      const int64_t count = residual.numel();
      const double factor = std::sqrt(weight / static_cast<double>(count));
      all_.residuals.narrow(0, end_, count)
          .copy_(residual.detach().flatten() * factor);
      if (flat_ != nullptr && residual.requires_grad()) {
        passed_.add(residual, factor, *flat_,
                    all_.jacobian.narrow(1, end_, count));
      }
      end_ += count;
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

}  // namespace

train::LeastSquares SolveLoss::least_squares(models::FieldNet& model,
                                             const SolvePoints& points,
                                             const Tensor* flat) const {
  if (is_learned() || !own_.empty() || !problem_->unknowns.empty()) {
    throw ConfigError(
        "optimizer.kind",
        "levenberg_marquardt needs a loss of the problem's residuals alone, "
        "with weights that are not learned",
        "set optimizer.kind=lbfgs");
  }
  const torch::AutoGradMode mode(flat != nullptr);
  const auto& windows = points.of(data::Split::kTrain);
  int64_t count = windows.size(0) * std::ssize(problem_->equations);
  for (const auto& face : points.faces()) count += count_of(face);
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
  return all.all();
}

}  // namespace propagator::tasks
