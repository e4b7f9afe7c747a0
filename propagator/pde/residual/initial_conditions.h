#pragma once

#include <memory>
#include <vector>

#include "propagator/autodiff/field_net.h"
#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// The initial conditions of a problem that can be built into an answer: those
// that give a field or, beside it, its first derivative by time, with a
// constant factor. The answer meets them by its form,
//   u = f + τ N                  for u = f at the beginning,
//   u = f + (t - t₀) g + τ² N    if u_t = g there too,
// with N the network and τ the time since t₀ over that of the problem. The
// answer keeps a corner of f or g, and a jump of theirs where a variable is
// periodic, for ever: such a field, and one with any other condition there, is
// left to the loss.
class HardInitialConditions {
 public:
  HardInitialConditions() = default;
  // The problem must outlive it. `with_corners`: such fields too.
  explicit HardInitialConditions(const pde::Problem& problem,
                                 bool with_corners = false);

  bool has(const pde::Condition& condition) const;
  // A network whose answers meet them; `network` becomes a part of it.
  std::shared_ptr<autodiff::FieldNet> build_into(
      std::shared_ptr<autodiff::FieldNet> network) const;

  // f and g of a field, as far as they are given.
  struct Value {
    const pde::Condition* condition = nullptr;
    // The condition's residual is factor · derivative + rest.
    double factor = 1;
    pde::Expression rest = {};
  };
  using ByOrder = std::vector<Value>;

 private:
  const pde::Problem* problem_ = nullptr;
  std::vector<ByOrder> fields_;
};

}  // namespace propagator::pde
