#pragma once

#include <memory>
#include <vector>

#include "propagator/autodiff/problem.h"
#include "propagator/core/config.h"
#include "propagator/models/field_net.h"

namespace propagator::tasks {

// How conditions at the first time are met.
//   loss      as terms of the loss, like all others
//   built_in  exactly, by the form of the answer: u = f + τ N for u = f at the
//             beginning, u = f + (t - t₀) g + τ² N if u_t = g there too, with
//             N the network and τ the time since t₀ over that of the problem
enum class Initial { kLoss, kBuiltIn };

// The initial conditions of a problem that can be built into an answer: those
// that give a field or, beside it, its first derivative by time, with a
// constant factor.
class InitialValues {
 public:
  InitialValues() = default;
  // Of all conditions at the first time; ConfigError if one of them cannot be
  // built in. The problem must outlive it.
  explicit InitialValues(const autodiff::Problem& problem);

  bool has(const autodiff::Condition& condition) const;
  // A network whose answers meet them; `network` becomes a part of it.
  std::shared_ptr<models::FieldNet> build_into(
      std::shared_ptr<models::FieldNet> network) const;

  // f or g of `orders` of time for each field, where there is one.
  struct Value {
    const autodiff::Condition* condition = nullptr;
    double factor = 1;  // of the derivative in the condition's residual
  };
  struct OfField {
    std::vector<Value> by_order;
  };

 private:
  const autodiff::Problem* problem_ = nullptr;
  std::vector<OfField> fields_;
};

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::Initial> {
  using enum tasks::Initial;
  static constexpr std::pair<tasks::Initial, const char*> all[] = {
      {kLoss, "loss"}, {kBuiltIn, "built_in"}};
};

}  // namespace propagator::config
