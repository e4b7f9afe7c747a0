#include "propagator/autodiff/direction_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <tuple>

namespace propagator::autodiff {
namespace {

constexpr double kNothing = 1e-12;  // a weight, beside ones of about 1

// Every β of the sum n with entries for the variables of `support` alone.
void add_monomials(const std::vector<size_t>& support, size_t next, int64_t n,
                   Orders& beta, std::vector<Orders>& all) {
  if (next + 1 == support.size()) {
    beta[support[next]] = n;
    all.push_back(beta);
    return;
  }
  for (int64_t k = n; k >= 0; --k) {
    beta[support[next]] = k;
    add_monomials(support, next + 1, n - k, beta, all);
  }
}

double monomial(const Orders& direction, const Orders& beta) {
  double value = 1;
  for (size_t i = 0; i < beta.size(); ++i) {
    value *= std::pow(static_cast<double>(direction[i]),
                      static_cast<double>(beta[i]));
  }
  return value;
}

double factorial(const Orders& alpha) {
  double value = 1;
  for (const int64_t order : alpha) value *= std::tgamma(order + 1.0);
  return value;
}

// Weights w with Σ_r w_r d_r^β = α! δ_αβ over the β of `monomials`, using the
// earliest directions that allow it; none if they do not. Gauss-Jordan, one
// direction at a time, until what is left of the right side is zero.
std::optional<std::vector<double>> weights(
    const std::vector<Orders>& directions, const std::vector<Orders>& monomials,
    const Orders& alpha) {
  const size_t rows = monomials.size();
  std::vector<double> rhs(rows);
  for (size_t i = 0; i < rows; ++i) {
    rhs[i] = monomials[i] == alpha ? factorial(alpha) : 0;
  }
  constexpr double kTiny = 1e-9;
  const double largest = factorial(alpha);
  std::vector<bool> used(rows, false);
  std::vector<size_t> pivot_row(directions.size(), rows);
  std::vector<std::vector<double>> columns;
  for (const auto& direction : directions) {
    auto& column = columns.emplace_back(rows);
    for (size_t i = 0; i < rows; ++i) {
      column[i] = monomial(direction, monomials[i]);
    }
  }
  for (size_t c = 0; c < directions.size(); ++c) {
    size_t best = rows;
    for (size_t i = 0; i < rows; ++i) {
      if (!used[i] && std::abs(columns[c][i]) > kTiny &&
          (best == rows ||
           std::abs(columns[c][i]) > std::abs(columns[c][best]))) {
        best = i;
      }
    }
    if (best == rows) continue;  // depends on those before it
    used[best] = true;
    pivot_row[c] = best;
    const auto pivot = columns[c];
    const auto eliminate = [&](std::vector<double>& column) {
      const double share = column[best] / pivot[best];
      if (share == 0) return;
      for (size_t i = 0; i < rows; ++i) column[i] -= share * pivot[i];
      column[best] = share;
    };
    for (size_t later = c + 1; later < columns.size(); ++later) {
      eliminate(columns[later]);
    }
    eliminate(rhs);
    bool solved = true;
    for (size_t i = 0; i < rows; ++i) {
      solved = solved && (used[i] || std::abs(rhs[i]) < kTiny * largest);
    }
    if (!solved) continue;
    std::vector<double> w(directions.size(), 0);
    for (size_t k = 0; k <= c; ++k) {
      if (pivot_row[k] < rows) w[k] = rhs[pivot_row[k]];
    }
    return w;
  }
  return std::nullopt;
}

// Whole vectors on `support` with entries to ±largest, the first that is not
// zero positive and no common divisor; the fullest and smallest come first,
// because (1, ±1) alone give u_xt.
std::vector<Orders> candidates(const std::vector<size_t>& support,
                               size_t variables, int64_t largest) {
  std::vector<Orders> all;
  Orders entries(support.size(), -largest);
  for (;;) {
    int64_t divisor = 0;
    for (const int64_t entry : entries) divisor = std::gcd(divisor, entry);
    const auto first =
        std::ranges::find_if(entries, [](int64_t entry) { return entry != 0; });
    if (divisor == 1 && *first > 0) {
      Orders direction(variables, 0);
      for (size_t i = 0; i < support.size(); ++i) {
        direction[support[i]] = entries[i];
      }
      all.push_back(direction);
    }
    size_t i = 0;
    while (i < entries.size() && entries[i] == largest) {
      entries[i++] = -largest;
    }
    if (i == entries.size()) break;
    ++entries[i];
  }
  const auto rank = [](const Orders& direction) {
    int64_t most = 0, sum = 0, zeros = 0, minus = 0;
    for (const int64_t entry : direction) {
      most = std::max(most, std::abs(entry));
      sum += std::abs(entry);
      zeros += entry == 0;
      minus += entry < 0;
    }
    return std::tuple(most, zeros, sum, minus);
  };
  std::ranges::stable_sort(all, {}, rank);
  return all;
}

// Of the known directions those that move along no other variable than α has.
std::vector<Orders> inside_of(const Orders& alpha,
                              const std::vector<Orders>& known) {
  std::vector<Orders> inside;
  for (const auto& direction : known) {
    bool fits = true;
    for (size_t i = 0; i < alpha.size(); ++i) {
      fits = fits && (alpha[i] > 0 || direction[i] == 0);
    }
    if (fits) inside.push_back(direction);
  }
  return inside;
}

}  // namespace

std::vector<WeightedDirection> combination_of(
    const Orders& alpha, const std::vector<Orders>& known) {
  const int64_t n = std::accumulate(alpha.begin(), alpha.end(), int64_t{0});
  std::vector<size_t> support, everywhere;
  for (size_t i = 0; i < alpha.size(); ++i) {
    if (alpha[i] > 0) support.push_back(i);
    everywhere.push_back(i);
  }
  const auto monomials = [&](const std::vector<size_t>& variables) {
    std::vector<Orders> all;
    Orders beta(alpha.size(), 0);
    add_monomials(variables, 0, n, beta, all);
    return all;
  };
  auto pool = known;
  auto w = weights(pool, monomials(everywhere), alpha);
  for (int64_t largest = 1; !w && largest <= n; ++largest) {
    pool = inside_of(alpha, known);
    for (const auto& direction : candidates(support, alpha.size(), largest)) {
      if (std::ranges::find(pool, direction) == pool.end()) {
        pool.push_back(direction);
      }
    }
    w = weights(pool, monomials(support), alpha);
  }
  if (!w) {
    throw std::invalid_argument(
        fmt::format("[DerivativePlan] found no directions for the orders ({})",
                    fmt::join(alpha, ", ")));
  }
  std::vector<WeightedDirection> combination;
  for (size_t i = 0; i < pool.size(); ++i) {
    if (std::abs((*w)[i]) < kNothing) continue;
    combination.push_back({pool[i], (*w)[i]});
  }
  return combination;
}

}  // namespace propagator::autodiff
