#pragma once

#include <memory>
#include <vector>

#include "propagator/autodiff/field_net.h"
#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// The periodic variables of a problem, and how a network is embedded in them:
// it sees the cosine and the sine of the variable's phase in place of the
// variable, so that its answer is periodic in all derivatives. A condition that
// asks for less than the equations leave free is left to the loss.
class PeriodicEmbedding {
 public:
  PeriodicEmbedding() = default;
  explicit PeriodicEmbedding(const pde::Problem& problem);

  bool has(const pde::Condition& condition) const;
  // What the network sees: the cosine in the variable's place, the sines
  // behind all others.
  autodiff::FieldDomain seen(const autodiff::FieldDomain& domain) const;
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
