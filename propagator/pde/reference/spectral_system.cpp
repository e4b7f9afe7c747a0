#include "propagator/pde/reference/spectral_system.h"

#include <torch/utils.h>

namespace propagator::pde {
namespace {

using torch::Tensor;
using Place = SpectralGrid::Place;

Tensor applied(const Tensor& matrix, const Tensor& u) {  // (P, m), (E, m)
  return torch::matmul(u, matrix.t());
}

Derivative pure(int64_t variables, int64_t field, int64_t variable,
                int64_t order) {
  Derivative derivative{
      field, std::vector<int64_t>(static_cast<size_t>(variables), 0)};
  derivative.orders[static_cast<size_t>(variable)] = order;
  return derivative;
}

}  // namespace

SpectralSystem::SpectralSystem(const SpectralPlan& plan,
                               const SpectralGrid& grid, int64_t elements,
                               bool first)
    : plan_(plan), grid_(grid), elements_(elements) {
  const SpectralGrid::Places everywhere(static_cast<size_t>(grid.variables()),
                                        Place::kPoints);
  for (const auto& equation : plan.problem.equations) {
    inside_.emplace_back(grid, equation, everywhere, 0);
  }
  for (int64_t x = 0; x < grid.variables(); ++x) {
    if (x == plan.marched && !first) {
      add_continuity();
    } else {
      add_conditions(x);
    }
  }
  if (elements > 1) join_elements();
}

// On the faces of one variable: all nodes of the variables before it and the
// equations' points of those after, the marched one being the last. So rows
// and unknowns are equally many, and no corner has two.
SpectralGrid::Places SpectralSystem::places(int64_t variable,
                                            Place place) const {
  SpectralGrid::Places all;
  for (int64_t x = 0; x < grid_.variables(); ++x) {
    const bool before =
        x != plan_.marched && (variable == plan_.marched || x < variable);
    all.push_back(x == variable ? place
                  : before      ? Place::kNodes
                                : Place::kPoints);
  }
  return all;
}

SpectralSystem::Link SpectralSystem::link(const Derivative& derivative,
                                          int64_t variable,
                                          int64_t owner) const {
  return {grid_.derivative(derivative, places(variable, Place::kLow), owner),
          grid_.derivative(derivative, places(variable, Place::kHigh), owner)};
}

SpectralSystem::Link SpectralSystem::link(int64_t field, int64_t variable,
                                          int64_t order) const {
  return link(pure(grid_.variables(), field, variable, order), variable, field);
}

void SpectralSystem::add_conditions(int64_t variable) {
  const bool joint = elements_ > 1 && variable == plan_.divided;
  const auto x = static_cast<size_t>(variable);
  for (const auto& [condition, matched, owner] : plan_.rows[x]) {
    if (matched >= 0) {
      const auto both = link(condition->matched[static_cast<size_t>(matched)],
                             variable, owner);
      if (joint) {
        ends_.push_back({{}, both, false});
      } else {
        opposite_.push_back(both);
      }
      continue;
    }
    const bool high = condition->at != plan_.problem.domain[x].low;
    const CollocationRows rows(
        grid_, condition->residual,
        places(variable, high ? Place::kHigh : Place::kLow), owner);
    if (joint) {
      ends_.push_back({rows, {}, high});
      continue;
    }
    inside_.push_back(rows);
    if (variable == plan_.marched) start_.push_back(rows);
  }
}

void SpectralSystem::add_continuity() {
  for (int64_t f = 0; f < grid_.fields(); ++f) {
    for (int64_t k = 0; k < plan_.count(f, plan_.marched); ++k) {
      continued_.push_back({link(f, plan_.marched, k), f, k});
    }
  }
}

void SpectralSystem::join_elements() {
  std::vector<Tensor> low, high, given;
  for (int64_t f = 0; f < grid_.fields(); ++f) {
    for (int64_t k = 0; k < plan_.count(f, plan_.divided); ++k) {
      const auto both = link(f, plan_.divided, k);
      low.push_back(both.low);
      high.push_back(both.high);
      // Values at both ends, then slopes, as far as there are conditions.
      const auto end = link(f, plan_.divided, k / 2);
      given.push_back(k % 2 == 0 ? end.low : end.high);
    }
  }
  if (low.empty()) return;  // the elements do not know one another
  joint_ = {torch::cat(low), torch::cat(high)};
  bottom_ = torch::cat(given);
}

void SpectralSystem::begin(int64_t slab, const Tensor& before) {
  corners_ = torch::zeros({elements_, grid_.variables()}, torch::kFloat64);
  for (int64_t x = 0; x < grid_.variables(); ++x) {
    auto column = corners_.select(1, x);
    const double length = grid_.axis(x).length;
    column += plan_.problem.domain[static_cast<size_t>(x)].low;
    if (x == plan_.marched) column += static_cast<double>(slab) * length;
    if (x == plan_.divided) {
      column += torch::arange(elements_, torch::kFloat64) * length;
    }
  }
  targets_.clear();
  for (const auto& one : continued_) {
    targets_.push_back(applied(one.link.high, before));
  }
}

Tensor SpectralSystem::guess() const {
  const auto u = torch::zeros({elements_, grid_.unknowns()}, torch::kFloat64);
  const auto fill = [&](int64_t f, int64_t order, const Tensor& value) {
    const int64_t count = grid_.axis(plan_.marched).points;
    const auto field = grid_.field(u, f).movedim(1 + plan_.marched, -1);
    const auto part = order == 0 ? field.narrow(-1, 0, count + 1)
                                 : field.narrow(-1, count + order, 1);
    part.copy_(value.view(part.select(-1, 0).sizes()).unsqueeze(-1));
  };
  for (size_t i = 0; i < continued_.size(); ++i) {
    fill(continued_[i].field, continued_[i].order, targets_[i]);
  }
  for (const auto& rows : start_) {
    const auto value = rows.alone(
        pure(grid_.variables(), rows.owner(), plan_.marched, 0), corners_);
    if (value.defined()) fill(rows.owner(), 0, value);
  }
  return u;
}

Tensor SpectralSystem::local_residual(const Tensor& u) const {
  std::vector<Tensor> parts;  // (E, P) each
  for (const auto& rows : inside_) parts.push_back(rows.values(u, corners_));
  for (const auto& one : opposite_) {
    parts.push_back(applied(one.low - one.high, u));
  }
  for (size_t i = 0; i < continued_.size(); ++i) {
    parts.push_back(applied(continued_[i].link.low, u) - targets_[i]);
  }
  return torch::cat(parts, 1);
}

Tensor SpectralSystem::joined(const Tensor& u) const {
  return (applied(joint_.low, u.slice(0, 1)) -
          applied(joint_.high, u.slice(0, 0, -1)))
      .flatten();
}

Tensor SpectralSystem::joint_residual(const Tensor& u) const {
  std::vector<Tensor> parts{joined(u)};
  for (const auto& [rows, link, high] : ends_) {
    parts.push_back((rows.empty()
                         ? applied(link.low, end_of(u, false)) -
                               applied(link.high, end_of(u, true))
                         : rows.values(end_of(u, high), end_of(corners_, high)))
                        .flatten());
  }
  return torch::cat(parts);
}

void SpectralSystem::factor(const Tensor& u) {
  std::vector<Tensor> parts;  // (E, P, m) each
  const auto add = [&](const Tensor& matrix) {
    parts.push_back(matrix.expand({elements_, -1, -1}));
  };
  for (const auto& rows : inside_) parts.push_back(rows.jacobian(u, corners_));
  for (const auto& one : opposite_) add(one.low - one.high);
  for (const auto& one : continued_) add(one.link.low);
  if (bottom_.defined()) add(bottom_);
  local_ = BalancedLu(torch::cat(parts, 1));
  if (bottom_.defined()) factor_joints(u);
}

void SpectralSystem::factor_joints(const Tensor& u) {
  const int64_t q = bottom_.size(0), last = elements_ - 1;
  std::vector<Tensor> by_first, by_last;
  for (const auto& [rows, link, high] : ends_) {
    if (rows.empty()) {
      by_first.push_back(link.low);
      by_last.push_back(-link.high);
      continue;
    }
    const auto slopes =
        rows.jacobian(end_of(u, high), end_of(corners_, high))[0];
    (high ? by_last : by_first).push_back(slopes);
    (high ? by_first : by_last).push_back(torch::zeros_like(slopes));
  }
  by_first_ = torch::cat(by_first);
  by_last_ = torch::cat(by_last);
  auto given = torch::zeros({elements_, grid_.unknowns(), q}, torch::kFloat64);
  given.slice(1, -q).diagonal(0, -2, -1).fill_(1);
  response_ = local_.solve(given);
  auto matrix = torch::zeros({elements_, q, elements_, q}, torch::kFloat64);
  const auto joints = matrix.slice(0, 0, last);
  joints.diagonal(0, 0, 2).copy_(
      -torch::matmul(joint_.high, response_.slice(0, 0, last))
           .permute({1, 2, 0}));
  joints.diagonal(1, 0, 2).copy_(
      torch::matmul(joint_.low, response_.slice(0, 1)).permute({1, 2, 0}));
  matrix[last].select(1, 0) += torch::matmul(by_first_, response_[0]);
  matrix[last].select(1, last) += torch::matmul(by_last_, response_[last]);
  joints_ = BalancedLu(matrix.view({elements_ * q, elements_ * q}));
}

Tensor SpectralSystem::correction(const Tensor& u) const {
  auto right = -local_residual(u);
  if (!bottom_.defined()) {
    return local_.solve(right.unsqueeze(-1)).squeeze(-1);
  }
  const int64_t q = bottom_.size(0);
  right = torch::cat({right, torch::zeros({elements_, q}, torch::kFloat64)}, 1);
  // First with nothing at the elements' ends, then what is there.
  const auto own = local_.solve(right.unsqueeze(-1)).squeeze(-1);
  const auto left = joint_residual(u) +
                    torch::cat({joined(own), torch::mv(by_first_, own[0]) +
                                                 torch::mv(by_last_, own[-1])});
  const auto ends = joints_.solve(-left.unsqueeze(-1)).view({elements_, q, 1});
  return own + torch::matmul(response_, ends).squeeze(-1);
}

}  // namespace propagator::pde
