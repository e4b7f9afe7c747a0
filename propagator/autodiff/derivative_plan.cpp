#include "propagator/autodiff/derivative_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace propagator::autodiff {
namespace {

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

torch::Tensor weighted(const torch::Tensor& row, double weight) {
  return weight == 1 ? row : row * weight;
}

const std::vector<torch::Tensor>& rows_of(const FieldRows& fields,
                                          int64_t field) {
  if (field < 0 || field >= std::ssize(fields)) {
    throw std::invalid_argument(
        fmt::format("[DerivativePlan] expected a field below {}, got {}",
                    fields.size(), field));
  }
  return fields[static_cast<size_t>(field)];
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
    place_of(axis, 2, std::sqrt(std::abs(factor)));
    signs.push_back(factor < 0 ? -1 : 1);
  }
  sum_weight_ = 2 / sum.begin()->second;
  for (const auto& alpha : needed_orders(derivatives, variables)) {
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
  auto& terms = terms_[alpha];
  for (const auto& [direction, weight] : combination_of(alpha, directions_)) {
    terms.push_back({place_of(direction, n, 1), weight});
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

FieldRows DerivativePlan::all_rows(const Jet& fields) const {
  expect_layout_of(fields);
  const auto shape = fields.value().sizes().vec();
  return field_rows(fields, {{shape.begin(), shape.end() - 1}}).front();
}

torch::Tensor DerivativePlan::derivative(const Jet& fields,
                                         const Derivative& derivative) const {
  return combined(all_rows(fields), derivative);
}

torch::Tensor DerivativePlan::second_order_sum(const Jet& fields,
                                               int64_t field) const {
  return summed(all_rows(fields), field);
}

torch::Tensor DerivativePlan::summed(const FieldRows& fields,
                                     int64_t field) const {
  if (!sum_weight_) {
    throw std::invalid_argument(
        "[DerivativePlan] expected a plan with a sum of second derivatives, "
        "got one without");
  }
  // All directions of order 2 share the row.
  return weighted(
      rows_of(fields, field)[static_cast<size_t>(layout_.row(0, 2))],
      *sum_weight_);
}

torch::Tensor DerivativePlan::combined(const FieldRows& fields,
                                       const Derivative& derivative) const {
  const auto& rows = rows_of(fields, derivative.field);
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
    total = total.defined() ? torch::add(total, row, weight)
                            : weighted(row, weight);
  }
  return total;
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
         },
         [plan, rows = rows[n]](int64_t field) {
           return Jet::constant(plan->summed(rows, field));
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
