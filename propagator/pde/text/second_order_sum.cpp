#include "propagator/pde/text/second_order_sum.h"

#include <algorithm>
#include <cmath>

#include "propagator/pde/text/problem.h"

namespace propagator::pde {

std::map<int64_t, SecondOrderSum> sums_of_fields(
    const std::map<Derivative, double>& factors) {
  std::map<int64_t, SecondOrderSum> of_fields;
  for (const auto& [derivative, factor] : factors) {
    of_fields[derivative.field][derivative.orders] = factor;
  }
  return of_fields;
}

bool are_multiples(const SecondOrderSum& a, const SecondOrderSum& b) {
  if (a.size() != b.size()) return false;
  const double ratio = a.begin()->second / b.begin()->second;
  for (const auto& [orders, factor] : b) {
    const auto found = a.find(orders);
    if (factor == 0 || found == a.end() ||
        std::abs(found->second - ratio * factor) >
            1e-12 * std::abs(found->second)) {
      return false;
    }
  }
  return true;
}

SecondOrderSum Problem::second_order_sum() const {
  SecondOrderSum sum;
  for (const auto& equation : equations) {
    const auto factors = equation.factors_of_order(2);
    if (!factors) return {};
    for (const auto& [field, own] : sums_of_fields(*factors)) {
      if (sum.empty()) sum = own;
      if (!are_multiples(own, sum)) return {};
    }
  }
  const auto pure = [](const auto& item) {
    return std::ranges::count(item.first, 2) == 1;
  };
  const auto at_least = [](int64_t order) {
    return [order](const Derivative& d) { return d.order() >= order; };
  };
  if (sum.size() < 2 || !std::ranges::all_of(sum, pure) ||
      std::ranges::any_of(derivatives(), at_least(3)) ||
      std::ranges::any_of(derivatives_on_faces(), at_least(2))) {
    return {};
  }
  return sum;
}

}  // namespace propagator::pde
