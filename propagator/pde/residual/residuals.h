#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "propagator/autodiff/derivative_plan.h"
#include "propagator/autodiff/field_net.h"
#include "propagator/core/device.h"
#include "propagator/pde/residual/problem_scale.h"
#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// What a derivative at a token of a window is.
//   honest     that of the field there, all tokens moving together
//   published  that of the sum of the window's fields, by this token's place
// Where tokens do not see each other both are the same. In terms of the
// Jacobian between tokens they are its row sums and its column sums; the public
// scripts around the S-Pformer paper have the latter, which solves another
// equation.
enum class Derivatives { kHonest, kPublished };

// Where something is asked of a network.
struct Place {
  torch::Tensor windows;     // (N, T, D)
  bool first_token = false;  // of each window alone
};

// Asks a network for its fields and a set of their derivatives at windows of
// points (N, T, D).
class Probe {
 public:
  Probe() = default;
  Probe(autodiff::DerivativePlan plan, Derivatives kind,
        const Runtime& runtime);

  // The variables, what was asked for, (N, T) each, and the model's unknowns.
  autodiff::Environment at(autodiff::FieldNet& model,
                           const torch::Tensor& windows) const;
  // At several places, in one pass through the network.
  std::vector<autodiff::Environment> at(autodiff::FieldNet& model,
                                        const std::vector<Place>& places) const;

 private:
  std::vector<autodiff::Environment> fields_at(
      autodiff::FieldNet& model, const std::vector<Place>& places) const;

  autodiff::DerivativePlan plan_;
  Derivatives kind_ = Derivatives::kHonest;
  torch::Tensor directions_;  // (R, D), made once, where the windows are
};

// The points on a face of the domain, and the condition that holds there.
struct Face {
  const pde::Condition* condition;
  bool first_token;             // of a window, where an initial condition holds
  torch::Tensor windows;        // (N, T, D)
  torch::Tensor opposite = {};  // periodic: the same at the variable's end
  torch::Tensor normals = {};   // on a shape's edge: outward, (N, S)
};

// What the equations and the conditions of a problem leave of a network's
// answer: zero everywhere if it were the solution.
class Residuals {
 public:
  Residuals() = default;
  // The problem must outlive it. Each is divided by its size in `scale`.
  // `at_once`: `everywhere` is one pass through the network, which pays off
  // where launches do.
  Residuals(const pde::Problem& problem, Derivatives kind,
            const Runtime& runtime, bool at_once, ProblemScale scale = {});
  Residuals(const pde::Problem& problem, Derivatives kind,
            const Runtime& runtime, ProblemScale scale = {})
      : Residuals(problem, kind, runtime, runtime.device.is_cuda(),
                  std::move(scale)) {}

  // Of each equation, (N, T), and the fields they are made of.
  std::vector<torch::Tensor> of_equations(autodiff::FieldNet& model,
                                          const torch::Tensor& windows) const;
  struct Answer {
    torch::Tensor fields;                  // (N, T, F)
    std::vector<torch::Tensor> equations;  // (N, T) each
  };
  Answer answer(autodiff::FieldNet& model, const torch::Tensor& windows) const;

  // Of each face; a periodic condition has one for each quantity it matches.
  // All faces pass through the network together, those on one tensor of points
  // once.
  using OfFaces = std::vector<std::vector<torch::Tensor>>;
  OfFaces of_faces(autodiff::FieldNet& model,
                   const std::vector<Face>& faces) const;

  // Both. On a GPU, where a call costs more than a few points, in one pass
  // through the network with all derivatives everywhere.
  struct All {
    std::vector<torch::Tensor> equations;
    OfFaces faces;
  };
  All everywhere(autodiff::FieldNet& model, const torch::Tensor& windows,
                 const std::vector<Face>& faces) const;

 private:
  // A window may go on beyond the last time, where a formula that names time
  // need not have a number: there it is that of the last time.
  torch::Tensor left(const pde::Expression& formula,
                     const autodiff::Environment& fields) const;
  std::vector<torch::Tensor> of_equations(
      const autodiff::Environment& fields) const;
  // `fields` at the places of all faces; those of a face from `begins` on.
  OfFaces of_faces(std::span<const autodiff::Environment> fields,
                   const std::vector<size_t>& begins,
                   const std::vector<Face>& faces) const;

  const pde::Problem* problem_ = nullptr;
  ProblemScale scale_;
  // As they are evaluated: where a jet carries a sum of second derivatives,
  // with that in place of them.
  std::vector<pde::Expression> equations_;
  Probe inside_, on_faces_;
  std::optional<Probe> at_once_;
};

}  // namespace propagator::pde

namespace propagator::config {

template <>
struct Names<pde::Derivatives> {
  using enum pde::Derivatives;
  static constexpr std::pair<pde::Derivatives, const char*> all[] = {
      {kHonest, "honest"}, {kPublished, "published"}};
};

}  // namespace propagator::config
