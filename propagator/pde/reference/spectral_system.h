#pragma once

#include <torch/types.h>

#include <vector>

#include "propagator/pde/reference/balanced_lu.h"
#include "propagator/pde/reference/collocation_rows.h"
#include "propagator/pde/reference/spectral_grid.h"
#include "propagator/pde/reference/spectral_plan.h"

namespace propagator::pde {

// Collocation of a problem on one slab of the marched variable: E elements
// along the divided variable, joined by continuity of as many derivatives as
// the equations have order, with unknowns u, (E, m). Newton's linear systems
// are solved for each element alone, given q values at its two ends, and then
// for these values.
class SpectralSystem {
 public:
  // Of the first slab, or of those after it, which continue the one before.
  // Plan and grid must outlive it.
  SpectralSystem(const SpectralPlan& plan, const SpectralGrid& grid,
                 int64_t elements, bool first);

  // `before`: the answer of the slab before, if this is not the first.
  void begin(int64_t slab, const torch::Tensor& before);
  // What is known at the start of the slab, all through it.
  torch::Tensor guess() const;

  // Newton's matrix at u. NumericalError if it is singular.
  void factor(const torch::Tensor& u);
  bool factored() const { return local_.defined(); }
  // -J⁻¹ r(u) with the last matrix.
  torch::Tensor correction(const torch::Tensor& u) const;

 private:
  // low·u at one place and high·v at another are equal.
  struct Link {
    torch::Tensor low, high;  // (P, m)
  };
  // A derivative that goes on from the slab before.
  struct Continued {
    Link link;
    int64_t field, order;
  };
  // A condition on the ends of the divided variable.
  struct End {
    CollocationRows rows;  // empty: the link
    Link link;             // of the first element to the last
    bool high;
  };

  SpectralGrid::Places places(int64_t variable,
                              SpectralGrid::Place place) const;
  Link link(const autodiff::Derivative& derivative, int64_t variable,
            int64_t owner) const;
  Link link(int64_t field, int64_t variable, int64_t order) const;
  void add_conditions(int64_t variable);
  void add_continuity();
  void join_elements();

  torch::Tensor local_residual(const torch::Tensor& u) const;  // (E, m - q)
  torch::Tensor joined(const torch::Tensor& u) const;          // ((E - 1) q)
  torch::Tensor joint_residual(const torch::Tensor& u) const;  // (E q)
  void factor_joints(const torch::Tensor& u);
  // The element at an end.
  torch::Tensor end_of(const torch::Tensor& all, bool high) const {
    return all.narrow(0, high ? elements_ - 1 : 0, 1);
  }

  const SpectralPlan& plan_;
  const SpectralGrid& grid_;
  int64_t elements_;
  torch::Tensor corners_;                // (E, D)
  std::vector<CollocationRows> inside_;  // equations and conditions
  std::vector<CollocationRows> start_;   // those at the marched variable's low
  std::vector<Link> opposite_;           // periodic, within an element
  std::vector<Continued> continued_;
  std::vector<torch::Tensor> targets_;  // of these, (E, P)
  std::vector<End> ends_;
  Link joint_;            // of an element's low end to the high one before
  torch::Tensor bottom_;  // (q, m) what is given at an element's ends

  BalancedLu local_, joints_;
  torch::Tensor response_;            // (E, m, q) to what is given
  torch::Tensor by_first_, by_last_;  // (q, m) of `ends_`
};

}  // namespace propagator::pde
