#pragma once

#include <torch/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "propagator/autodiff/direction_search.h"
#include "propagator/autodiff/environment.h"
#include "propagator/autodiff/field_rows.h"

namespace propagator::autodiff {

// Which directions a jet needs, and to which order, so that it holds a set of
// derivatives. The coefficient of order n along d is
//   c_n(d) = Σ_{|β|=n} d^β ∂^β u / β!,
// so ∂ⁿ/∂xᵢⁿ is n! c_n along the unit vector i, and a mixed derivative ∂^α is
// a combination Σ_r w_r c_n(d_r) wherever Σ_r w_r d_r^β = α! for β = α and 0
// for every other β of that order. Directions are small whole numbers, few,
// and shared: u_xt takes (1, 1) and (1, -1), but beside u_xx and u_tt only the
// first of them.
class DerivativePlan {
 public:
  struct Term {
    int64_t direction;
    double weight;  // of its coefficient of the derivative's order
  };

  DerivativePlan() = default;  // values alone
  // Of D variables. std::invalid_argument if a derivative has not D orders.
  DerivativePlan(const std::set<Derivative>& derivatives, int64_t variables);
  // With Σ f u_ii as a quantity of its own, which a jet carries in one row
  // (along √|f| of each axis), and first derivatives beside it. It has none of
  // the u_ii: std::invalid_argument if one is asked for. An empty sum is none.
  DerivativePlan(const std::set<Derivative>& derivatives, int64_t variables,
                 const SecondOrderSum& sum);

  const JetLayout& layout() const { return layout_; }
  // (R, D), a copy from the host: to be made once, not at every step.
  torch::Tensor directions(torch::TensorOptions options) const;

  // Of `fields`, a jet (M; N, …, F) along the directions: (N, …). The value is
  // in every plan; for others that are not, std::invalid_argument.
  torch::Tensor derivative(const Jet& fields,
                           const Derivative& derivative) const;
  // The plan's sum, of one field and over its first factor: u_ii + Σ (f_j /
  // f_i) u_jj. std::invalid_argument if the plan has none.
  torch::Tensor second_order_sum(const Jet& fields, int64_t field) const;
  // Points (N, …, D) and all derivatives there, as plain values, for an
  // equation.
  Environment environment(const torch::Tensor& points, const Jet& fields) const;
  // The same for each of several parts of the points, as field_rows has them.
  std::vector<Environment> environments(const std::vector<torch::Tensor>& parts,
                                        const Jet& fields) const;

  // Row by row, as whole numbers, and how each derivative is put together from
  // them.
  const std::vector<Orders>& direction_list() const { return directions_; }
  const std::map<Orders, std::vector<Term>>& terms() const { return terms_; }
  // "2 c2(x)", "0.5 c2(x+t) - 0.5 c2(x-t)"
  std::string recipe(const Orders& orders,
                     const std::vector<std::string>& variables) const;

 private:
  void expect_layout_of(const Jet& fields) const;
  FieldRows all_rows(const Jet& fields) const;
  torch::Tensor summed(const FieldRows& fields, int64_t field) const;
  torch::Tensor combined(const FieldRows& fields,
                         const Derivative& derivative) const;
  void add(const Orders& alpha);
  // The place of a direction, which goes to order `reach` if it is new.
  int64_t place_of(const Orders& direction, int64_t reach, double scale);

  int64_t variables_ = 0;
  std::vector<Orders> directions_;
  std::vector<double> scales_;  // of the whole numbers
  std::vector<int64_t> reach_;  // the order to which each direction goes
  std::map<Orders, std::vector<Term>> terms_;
  std::optional<double> sum_weight_;  // of the sum's row, where there is one
  JetLayout layout_;
};

}  // namespace propagator::autodiff
