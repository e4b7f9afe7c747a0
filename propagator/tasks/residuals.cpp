#include "propagator/tasks/residuals.h"

#include <torch/autograd.h>
#include <torch/utils.h>

namespace propagator::tasks {
namespace {

using autodiff::Derivative;
using autodiff::Environment;
using autodiff::Jet;
using torch::Tensor;

// Derivatives of the sums of windows' fields, each from one of an order less,
// in reverse mode.
class ColumnSums {
 public:
  ColumnSums(models::FieldNet& model, const Tensor& windows)
      : keep_graph_(torch::GradMode::is_enabled()) {
    const torch::AutoGradMode on(true);
    places_ = windows.detach().clone().set_requires_grad(true);
    fields_ = model.values(places_);
  }

  Tensor at(const Derivative& derivative) {
    const torch::AutoGradMode on(true);
    const auto value = tracked(derivative);
    return keep_graph_ ? value : value.detach();
  }

 private:
  Tensor tracked(Derivative derivative) {
    const auto known = known_.find(derivative);
    if (known != known_.end()) return known->second;
    auto& result = known_[derivative];
    if (derivative.order() == 0) {
      return result = fields_.select(-1, derivative.field);
    }
    const auto variable = std::ranges::find_if(
        derivative.orders, [](int64_t order) { return order > 0; });
    const auto place = variable - derivative.orders.begin();
    --*variable;
    const auto lower = tracked(derivative);
    const auto gradient = torch::autograd::grad(
        {lower.sum()}, {places_}, {}, /*retain_graph=*/true,
        /*create_graph=*/true, /*allow_unused=*/true)[0];
    return result = gradient.defined() ? gradient.select(-1, place)
                                       : torch::zeros_like(lower);
  }

  bool keep_graph_;
  Tensor places_, fields_;
  std::map<Derivative, Tensor> known_;
};

// Points [begin, begin + count) of an environment.
Environment narrow(const Environment& all, int64_t begin, int64_t count) {
  Environment part;
  for (const auto& variable : all.variables) {
    part.variables.push_back(
        Jet::constant(variable.value().narrow(0, begin, count)));
  }
  part.field = [field = all.field, begin, count](const Derivative& derivative) {
    return Jet::constant(field(derivative).value().narrow(0, begin, count));
  };
  return part;
}

std::set<Derivative> derivatives_on_faces(const autodiff::Problem& problem) {
  std::set<Derivative> all;
  for (const auto& condition : problem.conditions) {
    all.merge(condition.derivatives());
  }
  return all;
}

// The windows of all faces, one after the other.
Tensor windows_of(const std::vector<Face>& faces) {
  std::vector<Tensor> windows;
  for (const auto& face : faces) {
    windows.push_back(face.windows);
    if (face.opposite.defined()) windows.push_back(face.opposite);
  }
  return torch::cat(windows);
}

}  // namespace

Probe::Probe(autodiff::DerivativePlan plan, Derivatives kind,
             const Runtime& runtime)
    : plan_(std::move(plan)),
      kind_(kind),
      directions_(plan_.directions(runtime.options())) {}

Environment Probe::at(models::FieldNet& model, const Tensor& windows) const {
  if (kind_ == Derivatives::kPublished) {
    const auto sums = std::make_shared<ColumnSums>(model, windows);
    return {autodiff::coordinates(Jet::constant(windows)),
            [sums](const Derivative& derivative) {
              return Jet::constant(sums->at(derivative));
            }};
  }
  return plan_.environment(windows, model.forward(Jet::moving(
                                        windows, directions_, plan_.layout())));
}

Residuals::Residuals(const autodiff::Problem& problem, Derivatives kind,
                     const Runtime& runtime)
    : problem_(&problem) {
  const auto variables = static_cast<int64_t>(problem.domain.size());
  const auto sum = problem.second_order_sum();
  const auto probe = [&](const std::set<Derivative>& derivatives) {
    return Probe(autodiff::DerivativePlan(derivatives, variables, sum), kind,
                 runtime);
  };
  inside_ = probe(problem.derivatives());
  auto on_faces = derivatives_on_faces(problem);
  on_faces_ =
      Probe(autodiff::DerivativePlan(on_faces, variables), kind, runtime);
  if (!runtime.device.is_cuda()) return;
  on_faces.merge(problem.derivatives());
  at_once_ = probe(on_faces);
}

std::vector<Tensor> Residuals::of_equations(const Environment& fields) const {
  std::vector<Tensor> all;
  for (const auto& equation : problem_->equations) {
    all.push_back(equation.evaluate(fields).value());
  }
  return all;
}

std::vector<Tensor> Residuals::of_equations(models::FieldNet& model,
                                            const Tensor& windows) const {
  return of_equations(inside_.at(model, windows));
}

Residuals::Answer Residuals::answer(models::FieldNet& model,
                                    const Tensor& windows) const {
  const auto environment = inside_.at(model, windows);
  std::vector<Tensor> fields;
  for (size_t f = 0; f < problem_->symbols.fields.size(); ++f) {
    const Derivative value{static_cast<int64_t>(f),
                           std::vector<int64_t>(problem_->domain.size(), 0)};
    fields.push_back(environment.field(value).value());
  }
  return {torch::stack(fields, -1), of_equations(environment)};
}

Residuals::OfFaces Residuals::of_faces(models::FieldNet& model,
                                       const std::vector<Face>& faces) const {
  if (faces.empty()) return {};
  return of_faces(on_faces_.at(model, windows_of(faces)), faces);
}

Residuals::All Residuals::everywhere(models::FieldNet& model,
                                     const Tensor& windows,
                                     const std::vector<Face>& faces) const {
  if (!at_once_ || faces.empty()) {
    return {of_equations(model, windows), of_faces(model, faces)};
  }
  const auto on_faces = windows_of(faces);
  const int64_t inside = windows.size(0);
  const auto all = at_once_->at(model, torch::cat({windows, on_faces}));
  return {of_equations(narrow(all, 0, inside)),
          of_faces(narrow(all, inside, on_faces.size(0)), faces)};
}

Residuals::OfFaces Residuals::of_faces(const Environment& fields,
                                       const std::vector<Face>& faces) const {
  OfFaces residuals;
  int64_t begin = 0;
  for (const auto& face : faces) {
    auto& left = residuals.emplace_back();
    const auto count = face.windows.size(0);
    const auto here = narrow(fields, begin, count);
    begin += count;
    if (!face.condition->is_periodic()) {
      const auto residual = face.condition->residual.evaluate(here).value();
      left.push_back(face.first_token ? residual.narrow(1, 0, 1) : residual);
      continue;
    }
    const auto there = narrow(fields, begin, count);
    begin += count;
    for (const auto& quantity : face.condition->matched) {
      left.push_back(here.field(quantity).value() -
                     there.field(quantity).value());
    }
  }
  return residuals;
}

}  // namespace propagator::tasks
