#pragma once

#include <memory>
#include <vector>

#include "propagator/autodiff/problem.h"
#include "propagator/models/field_net.h"

namespace propagator::tasks {

// The initial conditions of a problem that can be built into an answer: those
// that give a field or, beside it, its first derivative by time, with a
// constant factor. The answer meets them by its form,
//   u = f + τ N                  for u = f at the beginning,
//   u = f + (t - t₀) g + τ² N    if u_t = g there too,
// with N the network and τ the time since t₀ over that of the problem. The
// answer keeps a corner of f or g, and a jump of theirs on a ring, for ever:
// such a field, and one with any other condition there, is left to the loss.
class InitialValues {
 public:
  InitialValues() = default;
  // The problem must outlive it. `with_corners`: such fields too.
  explicit InitialValues(const autodiff::Problem& problem,
                         bool with_corners = false);

  bool has(const autodiff::Condition& condition) const;
  // A network whose answers meet them; `network` becomes a part of it.
  std::shared_ptr<models::FieldNet> build_into(
      std::shared_ptr<models::FieldNet> network) const;

  // f and g of a field, as far as they are given.
  struct Value {
    const autodiff::Condition* condition = nullptr;
    // The condition's residual is factor · derivative + rest.
    double factor = 1;
    autodiff::Expression rest = {};
  };
  using ByOrder = std::vector<Value>;

 private:
  const autodiff::Problem* problem_ = nullptr;
  std::vector<ByOrder> fields_;
};

}  // namespace propagator::tasks
