#include "propagator/autodiff/derivative_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <stdexcept>

namespace propagator::autodiff {
namespace {

using Orders = DerivativePlan::Orders;
using Term = DerivativePlan::Term;

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

// Those of order 1 or more.
std::vector<Orders> needed_orders(const std::set<Derivative>& derivatives,
                                  int64_t variables) {
  std::vector<Orders> needed;
  for (const auto& derivative : derivatives) {
    if (std::ssize(derivative.orders) != variables ||
        std::ranges::any_of(derivative.orders,
                            [](int64_t order) { return order < 0; })) {
      throw std::invalid_argument(fmt::format(
          "[DerivativePlan] expected {} orders of 0 or more, got ({})",
          variables, fmt::join(derivative.orders, ", ")));
    }
    if (derivative.order() > 0) needed.push_back(derivative.orders);
  }
  return needed;
}

bool is_pure(const Orders& alpha) {
  return std::ranges::count(alpha, 0) == std::ssize(alpha) - 1;
}

int64_t total_of(const Orders& alpha) {
  return std::accumulate(alpha.begin(), alpha.end(), int64_t{0});
}

}  // namespace

DerivativePlan::DerivativePlan(const std::set<Derivative>& derivatives,
                               int64_t variables)
    : variables_(variables) {
  auto needed = needed_orders(derivatives, variables);
  // The highest first, so that the layout's orders fall and lower ones find
  // their directions there already; pure ones before mixed, which use theirs.
  const auto rank = [](const Orders& alpha) {
    return std::tuple(-total_of(alpha), -std::ranges::count(alpha, 0), alpha);
  };
  std::ranges::sort(needed, {}, rank);
  for (const auto& alpha : needed) {
    if (!terms_.contains(alpha)) add(alpha);
  }
  layout_ = JetLayout(reach_);
}

DerivativePlan::DerivativePlan(const std::set<Derivative>& derivatives,
                               int64_t variables, const SecondOrderSum& sum)
    : variables_(variables) {
  if (sum.empty()) {
    *this = DerivativePlan(derivatives, variables);
    return;
  }
  std::vector<int> signs;
  for (const auto& [alpha, factor] : sum) {
    if (std::ssize(alpha) != variables || !is_pure(alpha) ||
        total_of(alpha) != 2 || factor == 0) {
      throw std::invalid_argument(
          "[DerivativePlan] expected a sum of second derivatives by one "
          "variable each");
    }
    auto axis = alpha;
    for (auto& entry : axis) entry /= 2;
    const auto place = place_of(axis, 2, std::sqrt(std::abs(factor)));
    signs.push_back(factor < 0 ? -1 : 1);
    auto& terms = terms_[alpha];  // none, but for the first
    if (place == 0) terms.push_back({place, 2 / factor});
  }
  for (const auto& alpha : needed_orders(derivatives, variables)) {
    if (sum.contains(alpha)) continue;
    if (total_of(alpha) != 1) {
      throw std::invalid_argument(fmt::format(
          "[DerivativePlan] expected first derivatives beside the sum, got "
          "({})",
          fmt::join(alpha, ", ")));
    }
    const auto place = place_of(alpha, 1, 1);
    terms_[alpha] = {{place, 1 / scales_[static_cast<size_t>(place)]}};
  }
  layout_ = JetLayout::summed(reach_, signs);
}

int64_t DerivativePlan::place_of(const Orders& direction, int64_t reach,
                                 double scale) {
  const auto known = std::ranges::find(directions_, direction);
  const auto place = known - directions_.begin();
  if (known == directions_.end()) {
    directions_.push_back(direction);
    scales_.push_back(scale);
    reach_.push_back(reach);
  }
  return place;
}

void DerivativePlan::add(const Orders& alpha) {
  const int64_t n = total_of(alpha);
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
  auto pool = directions_;
  auto w = weights(pool, monomials(everywhere), alpha);
  for (int64_t largest = 1; !w && largest <= n; ++largest) {
    pool.clear();
    for (const auto& known : directions_) {
      bool inside = true;
      for (size_t i = 0; i < alpha.size(); ++i) {
        inside = inside && (alpha[i] > 0 || known[i] == 0);
      }
      if (inside) pool.push_back(known);
    }
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
  auto& terms = terms_[alpha];
  for (size_t i = 0; i < pool.size(); ++i) {
    if (std::abs((*w)[i]) < kNothing) continue;
    terms.push_back({place_of(pool[i], n, 1), (*w)[i]});
  }
}

torch::Tensor DerivativePlan::directions(torch::TensorOptions options) const {
  auto table = torch::empty({std::ssize(directions_), variables_},
                            torch::TensorOptions().dtype(torch::kFloat64));
  double* entry = table.data_ptr<double>();
  for (size_t r = 0; r < directions_.size(); ++r) {
    for (const int64_t whole : directions_[r]) {
      *entry++ = static_cast<double>(whole) * scales_[r];
    }
  }
  return table.to(options.requires_grad(false));
}

void DerivativePlan::expect_layout_of(const Jet& fields) const {
  if (fields.layout() == layout_) return;
  throw std::invalid_argument(
      fmt::format("[DerivativePlan] expected a jet of {} rows, got {}",
                  layout_.rows(), fields.layout().rows()));
}

torch::Tensor DerivativePlan::derivative(const Jet& fields,
                                         const Derivative& derivative) const {
  expect_layout_of(fields);
  const auto shape = fields.value().sizes().vec();
  return combined(
      field_rows(fields, {{shape.begin(), shape.end() - 1}}).front(),
      derivative);
}

torch::Tensor DerivativePlan::combined(const FieldRows& fields,
                                       const Derivative& derivative) const {
  if (derivative.field < 0 || derivative.field >= std::ssize(fields)) {
    throw std::invalid_argument(
        fmt::format("[DerivativePlan] expected a field below {}, got {}",
                    fields.size(), derivative.field));
  }
  const auto& rows = fields[static_cast<size_t>(derivative.field)];
  const int64_t order = derivative.order();
  if (order == 0) return rows[0];
  const auto found = terms_.find(derivative.orders);
  if (found == terms_.end()) {
    throw std::invalid_argument(fmt::format(
        "[DerivativePlan] expected a derivative of the plan, got ({})",
        fmt::join(derivative.orders, ", ")));
  }
  torch::Tensor total;
  for (const auto& [direction, weight] : found->second) {
    const auto& row = rows[static_cast<size_t>(layout_.row(direction, order))];
    if (!total.defined()) {
      total = weight == 1 ? row : row * weight;
    } else {
      total = torch::add(total, row, weight);
    }
  }
  return total.defined() ? total : torch::zeros_like(rows[0]);
}

Environment DerivativePlan::environment(const torch::Tensor& points,
                                        const Jet& fields) const {
  return environments({points}, fields).front();
}

std::vector<Environment> DerivativePlan::environments(
    const std::vector<torch::Tensor>& parts, const Jet& fields) const {
  expect_layout_of(fields);
  std::vector<std::vector<int64_t>> shapes;
  for (const auto& part : parts) {
    shapes.emplace_back(part.sizes().begin(), part.sizes().end() - 1);
  }
  const auto rows = field_rows(fields, shapes);
  // The environments may outlive the plan.
  const auto plan = std::make_shared<const DerivativePlan>(*this);
  std::vector<Environment> environments;
  for (size_t n = 0; n < parts.size(); ++n) {
    environments.push_back(
        {coordinates(Jet::constant(parts[n])),
         [plan, rows = rows[n]](const Derivative& derivative) {
           return Jet::constant(plan->combined(rows, derivative));
         }});
  }
  return environments;
}

std::string DerivativePlan::recipe(
    const Orders& orders, const std::vector<std::string>& variables) const {
  const int64_t n = total_of(orders);
  std::string text;
  for (const auto& [direction, weight] : terms_.at(orders)) {
    std::string along;
    const auto& entries = directions_[static_cast<size_t>(direction)];
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i] == 0) continue;
      const int64_t size = std::abs(entries[i]);
      along += entries[i] < 0 ? "-" : along.empty() ? "" : "+";
      if (size != 1) along += fmt::format("{}", size);
      along += variables.at(i);
    }
    text += text.empty() ? (weight < 0 ? "-" : "") : weight < 0 ? " - " : " + ";
    if (std::abs(weight) != 1) text += fmt::format("{:g} ", std::abs(weight));
    text += fmt::format("c{}({})", n, along);
  }
  return text;
}

}  // namespace propagator::autodiff
