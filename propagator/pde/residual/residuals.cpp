#include "propagator/pde/residual/residuals.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/autodiff/point_gradients.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

// Derivatives of the sums of windows' fields, each from one of an order less,
// in reverse mode.
class ColumnSums {
 public:
  ColumnSums(autodiff::FieldNet& model, const Tensor& windows)
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

// Of all faces, and where among them each face begins. Faces on the same points
// share a place.
struct FacePlaces {
  std::vector<Place> places;
  std::vector<size_t> begins;

  explicit FacePlaces(const std::vector<Face>& faces) {
    for (const auto& face : faces) {
      const bool periodic = face.condition->is_periodic();
      const Place place{face.windows, face.first_token && !periodic};
      const auto known = std::ranges::find_if(places, [&](const Place& other) {
        return !periodic && other.windows.is_same(place.windows) &&
               other.first_token == place.first_token;
      });
      begins.push_back(static_cast<size_t>(known - places.begin()));
      if (known != places.end()) continue;
      places.push_back(place);
      if (periodic) places.push_back({face.opposite});
    }
  }
};

// With the components of normals (N, S), which all tokens of a window share, as
// variables behind the others.
Environment with_normals(Environment fields, const Tensor& normals) {
  for (const auto& component : normals.unbind(1)) {
    fields.variables.push_back(Jet::constant(component.unsqueeze(1)));
  }
  return fields;
}

Tensor windows_of(const std::vector<Place>& places) {
  if (places.size() == 1) return places.front().windows;
  std::vector<Tensor> windows;
  for (const auto& place : places) windows.push_back(place.windows);
  return torch::cat(windows);
}

// At a place whose first window is number `begin`.
Environment environment_of(const std::shared_ptr<ColumnSums>& sums,
                           const Tensor& points, int64_t begin) {
  return {
      autodiff::coordinates(Jet::constant(points)),
      [sums, begin, count = points.size(0),
       tokens = points.size(1)](const Derivative& derivative) {
        return Jet::constant(
            sums->at(derivative).narrow(0, begin, count).narrow(1, 0, tokens));
      }};
}

}  // namespace

Probe::Probe(autodiff::DerivativePlan plan, Derivatives kind,
             const Runtime& runtime)
    : plan_(std::move(plan)),
      kind_(kind),
      directions_(plan_.directions(runtime.options())) {}

Environment Probe::at(autodiff::FieldNet& model, const Tensor& windows) const {
  return at(model, std::vector<Place>{{windows}}).front();
}

std::vector<Environment> Probe::at(autodiff::FieldNet& model,
                                   const std::vector<Place>& places) const {
  auto environments = fields_at(model, places);
  if (const auto unknowns = model.unknowns(); unknowns.defined()) {
    const auto parameters = model.parameters();
    for (auto& environment : environments) {
      environment.unknowns = autodiff::PointGradients::at_each_point(
                                 unknowns, parameters,
                                 environment.variables.front().value().sizes())
                                 .unbind(-1);
    }
  }
  return environments;
}

std::vector<Environment> Probe::fields_at(
    autodiff::FieldNet& model, const std::vector<Place>& places) const {
  const auto windows = windows_of(places);
  std::vector<Tensor> points;
  for (const auto& place : places) {
    points.push_back(place.first_token ? place.windows.narrow(1, 0, 1)
                                       : place.windows);
  }
  if (kind_ == Derivatives::kHonest) {
    return plan_.environments(
        points,
        model.forward(Jet::moving(windows, directions_, plan_.layout())));
  }
  const auto sums = std::make_shared<ColumnSums>(model, windows);
  std::vector<Environment> environments;
  int64_t begin = 0;
  for (const auto& part : points) {
    environments.push_back(environment_of(sums, part, begin));
    begin += part.size(0);
  }
  return environments;
}

namespace {

Tensor divided(const Tensor& residual, double size) {
  return size == 1 ? residual : residual / size;
}

}  // namespace

Residuals::Residuals(const pde::Problem& problem, Derivatives kind,
                     const Runtime& runtime, bool at_once, ProblemScale scale)
    : problem_(&problem), scale_(std::move(scale)) {
  const auto variables = static_cast<int64_t>(problem.domain.size());
  // Sums over tokens come from reverse mode, one derivative at a time.
  const auto sum = kind == Derivatives::kHonest && problem.unknowns.empty()
                       ? problem.second_order_sum()
                       : autodiff::SecondOrderSum();
  std::set<Derivative> named;
  const bool open = !problem.unknowns.empty();
  for (const auto& equation :
       open ? problem.open_equations : problem.equations) {
    equations_.push_back(sum.empty() ? equation : equation.with_sum(sum));
    named.merge(equations_.back().derivatives());
  }
  inside_ = Probe({named, variables, sum}, kind, runtime);
  const auto on_faces = problem.derivatives_on_faces();
  on_faces_ = Probe({on_faces, variables}, kind, runtime);
  if (!at_once) return;
  named.insert(on_faces.begin(), on_faces.end());
  at_once_ = Probe({named, variables, sum}, kind, runtime);
}

Tensor Residuals::left(const pde::Expression& formula,
                       const Environment& fields) const {
  const int64_t time = problem_->time();
  if (time < 0 || !formula.variables().contains(time)) {
    return formula.evaluate(fields).value();
  }
  auto inside = fields;
  auto& t = inside.variables[static_cast<size_t>(time)];
  const double last = problem_->domain[static_cast<size_t>(time)].high;
  t = Jet::constant(t.value().clamp_max(last));
  return formula.evaluate(inside).value();
}

std::vector<Tensor> Residuals::of_equations(const Environment& fields) const {
  std::vector<Tensor> all;
  for (size_t n = 0; n < equations_.size(); ++n) {
    all.push_back(divided(left(equations_[n], fields), scale_.of_equation(n)));
  }
  return all;
}

std::vector<Tensor> Residuals::of_equations(autodiff::FieldNet& model,
                                            const Tensor& windows) const {
  return of_equations(inside_.at(model, windows));
}

Residuals::Answer Residuals::answer(autodiff::FieldNet& model,
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

Residuals::OfFaces Residuals::of_faces(autodiff::FieldNet& model,
                                       const std::vector<Face>& faces) const {
  if (faces.empty()) return {};
  const FacePlaces on(faces);
  return of_faces(on_faces_.at(model, on.places), on.begins, faces);
}

Residuals::All Residuals::everywhere(autodiff::FieldNet& model,
                                     const Tensor& windows,
                                     const std::vector<Face>& faces) const {
  if (!at_once_ || faces.empty()) {
    return {of_equations(model, windows), of_faces(model, faces)};
  }
  FacePlaces on(faces);
  on.places.insert(on.places.begin(), Place{windows});
  const auto fields = at_once_->at(model, on.places);
  return {of_equations(fields.front()),
          of_faces(std::span(fields).subspan(1), on.begins, faces)};
}

Residuals::OfFaces Residuals::of_faces(std::span<const Environment> fields,
                                       const std::vector<size_t>& begins,
                                       const std::vector<Face>& faces) const {
  OfFaces residuals;
  for (size_t n = 0; n < faces.size(); ++n) {
    const auto& condition = *faces[n].condition;
    auto& of_face = residuals.emplace_back();
    const auto& here = fields[begins[n]];
    if (!condition.is_periodic()) {
      const auto at =
          static_cast<size_t>(&condition - problem_->conditions.data());
      const auto residual = left(
          condition.residual,
          condition.is_on_edge() ? with_normals(here, faces[n].normals) : here);
      of_face.push_back(divided(residual, scale_.of_condition(at)));
      continue;
    }
    const auto& there = fields[begins[n] + 1];
    for (const auto& quantity : condition.matched) {
      of_face.push_back(
          divided(here.field(quantity).value() - there.field(quantity).value(),
                  scale_.of_matched(quantity)));
    }
  }
  return residuals;
}

}  // namespace propagator::pde
