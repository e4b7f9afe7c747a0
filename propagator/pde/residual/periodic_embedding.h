#pragma once

#include <memory>
#include <vector>

#include "propagator/autodiff/field_net.h"
#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// The variables of a problem whose periodic conditions are hard constraints: a
// network sees the cosine and the sine of the angle in place of the variable,
// so that its answer is periodic in all derivatives. A condition that asks for
// less than the equations leave free is left to the loss. `smooth`: so is one
// that the fields do not begin with as smooth functions do, u = exp(-x^2) with
// another slope at one end than at the other, where the equations keep that, as
// one without u_x does and one with u_t = u_xx does not.
class PeriodicEmbedding {
 public:
  PeriodicEmbedding() = default;
  explicit PeriodicEmbedding(const pde::Problem& problem, bool smooth = false);

  bool has(const pde::Condition& condition) const;
  // What the network sees: the cosine in the variable's place, the sines
  // behind all others.
  autodiff::FieldDomain seen(const autodiff::FieldDomain& domain) const;
  // Which of the coordinates that the network sees belong to a variable of the
  // domain, of `variables`.
  std::vector<int64_t> columns_of(int64_t variable, int64_t variables) const;
  // `network` with such inputs, as one on the domain.
  std::shared_ptr<autodiff::FieldNet> embed(
      std::shared_ptr<autodiff::FieldNet> network) const;

 private:
  struct Period {
    int64_t variable;
    double low, length;
  };
  friend class WithPeriodicEmbedding;
  std::vector<Period> periodic_;
};

}  // namespace propagator::pde
