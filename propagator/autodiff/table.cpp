#include "propagator/autodiff/table.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <stdexcept>

namespace propagator::autodiff {
namespace {

using torch::Tensor;

constexpr int64_t kPowers = 4;

// Solves a_i m_(i-1) + b_i m_i + c_i m_(i+1) = r_i, (n, R), by elimination.
Tensor solve_tridiagonal(const std::vector<double>& a, std::vector<double> b,
                         const std::vector<double>& c, const Tensor& right) {
  const int64_t n = right.size(0);
  auto rows = right.unbind(0);
  for (size_t i = 1; i < rows.size(); ++i) {
    const double factor = a[i] / b[i - 1];
    b[i] -= factor * c[i - 1];
    rows[i] = rows[i] - factor * rows[i - 1];
  }
  for (auto i = static_cast<size_t>(n); i-- > 0;) {
    if (i + 1 < rows.size()) rows[i] = rows[i] - c[i] * rows[i + 1];
    rows[i] = rows[i] / b[i];
  }
  return torch::stack(rows);
}

// Slopes m at the nodes that make second derivatives continuous: with h_i the
// lengths of cells and s_i their slopes, at each inner node
//   h_i m_(i-1) + 2 (h_(i-1) + h_i) m_i + h_(i-1) m_(i+1)
//     = 3 (h_i s_(i-1) + h_(i-1) s_i),
// and the third derivative is continuous at the second node,
//   h_1 m_0 + (h_0 + h_1) m_1
//     = ((3 h_0 + 2 h_1) h_1 s_0 + h_0² s_1)/(h_0 + h_1),
// and likewise at the last but one. These two are the same of three nodes,
// where the parabola has m_0 + m_1 = 2 s_0 too.
Tensor slopes_at_nodes(const std::vector<double>& h, const Tensor& s) {
  const size_t cells = h.size();
  if (cells == 1) return torch::cat({s, s});
  std::vector<double> a(cells + 1, 0), b(cells + 1, 1), c(cells + 1, 0);
  std::vector<Tensor> right(cells + 1);
  const auto at = [&](size_t i) { return s[static_cast<int64_t>(i)]; };
  for (size_t i = 1; i < cells; ++i) {
    a[i] = h[i];
    b[i] = 2 * (h[i - 1] + h[i]);
    c[i] = h[i - 1];
    right[i] = 3 * (h[i] * at(i - 1) + h[i - 1] * at(i));
  }
  // Of an end: its own cell and the next.
  const auto end = [&](size_t node, size_t own, size_t next, double& beside) {
    if (cells == 2) {
      beside = 1;
      right[node] = 2 * at(own);
      return;
    }
    const double both = h[own] + h[next];
    b[node] = h[next];
    beside = both;
    right[node] = ((3 * h[own] + 2 * h[next]) * h[next] * at(own) +
                   h[own] * h[own] * at(next)) /
                  both;
  };
  end(0, 0, 1, c[0]);
  end(cells, cells - 1, cells - 2, a[cells]);
  return solve_tridiagonal(a, b, c, torch::stack(right));
}

// Values (n, R) as factors of powers of x - x_i in each cell, (n - 1, 4, R).
Tensor pieces_along(const Tensor& nodes, const Tensor& values) {
  const auto lengths = nodes.diff();
  const auto h = lengths.unsqueeze(1);
  const auto s = values.diff(1, 0) / h;
  const auto m = slopes_at_nodes({lengths.data_ptr<double>(),
                                  lengths.data_ptr<double>() + lengths.numel()},
                                 s);
  const auto left = m.slice(0, 0, -1), right = m.slice(0, 1);
  return torch::stack(
      {values.slice(0, 0, -1), left, (3 * s - 2 * left - right) / h,
       (left + right - 2 * s) / (h * h)},
      1);
}

// (x - x_i)^k differentiated so often, k = 0 … 3; no jet: it is zero.
std::vector<Jet> powers_of(const Jet& x, int64_t order) {
  std::vector<Jet> powers(kPowers);
  Jet power;
  for (int64_t k = order; k < kPowers; ++k) {
    double factor = 1;
    for (int64_t n = 0; n < order; ++n) factor *= static_cast<double>(k - n);
    power = k == order       ? Jet::constant(torch::ones_like(x.value()))
            : k == order + 1 ? x
                             : power * x;
    powers[static_cast<size_t>(k)] = power * factor;
  }
  return powers;
}

// Σ c_(k, l, …) p_k q_l … over the last dimensions of c.
Jet combined(const Tensor& factors, const std::vector<std::vector<Jet>>& powers,
             size_t axis) {
  if (axis == powers.size()) return Jet::constant(factors);
  const auto behind = -static_cast<int64_t>(powers.size() - axis);
  Jet all;
  for (int64_t k = 0; k < kPowers; ++k) {
    const auto& power = powers[axis][static_cast<size_t>(k)];
    if (!power.rows().defined()) continue;
    const auto term =
        combined(factors.select(behind, k), powers, axis + 1) * power;
    all = all.rows().defined() ? all + term : term;
  }
  return all;
}

}  // namespace

Table::Table(std::string name, std::vector<int64_t> variables,
             std::vector<Tensor> nodes, const Tensor& values)
    : name_(std::move(name)), variables_(std::move(variables)) {
  const auto axes = std::ssize(variables_);
  if (values.dim() != axes || std::ssize(nodes) != axes) {
    throw std::invalid_argument(
        fmt::format("[Table] expected nodes and a dimension of values for each "
                    "of {} variables, got {} and {}",
                    axes, nodes.size(), values.dim()));
  }
  auto factors = values.to(torch::kFloat64);
  for (int64_t a = 0; a < axes; ++a) {
    auto& along = nodes[static_cast<size_t>(a)];
    along = along.to(torch::kFloat64).contiguous();
    if (along.dim() != 1 || along.size(0) != values.size(a) ||
        along.size(0) < 2 || !(along.diff() > 0).all().item<bool>()) {
      throw std::invalid_argument(
          "[Table] expected two rising nodes at least along each axis, as many "
          "as values");
    }
    // Of (nodes, nodes of the next axes, cells so far, powers so far): its
    // cells go behind those so far, and so do its powers.
    auto shape = factors.sizes().vec();
    shape.front() = kPowers;
    shape.insert(shape.begin(), along.size(0) - 1);
    factors = pieces_along(along, factors.reshape({along.size(0), -1}))
                  .reshape(shape)
                  .movedim(1, -1)
                  .movedim(0, axes - 1);
  }
  pieces_ = {std::move(nodes), factors.flatten(0, axes - 1).contiguous()};
}

std::vector<int64_t> Table::nodes() const {
  std::vector<int64_t> counts;
  for (const auto& along : pieces_.nodes) counts.push_back(along.size(0));
  return counts;
}

const Table::Pieces& Table::pieces_like(const Tensor& places) const {
  if (places.is_cpu() && places.scalar_type() == torch::kFloat64) {
    return pieces_;
  }
  const std::lock_guard guard(lock_);
  auto& there = others_[{places.device().str(), places.scalar_type()}];
  if (!there.factors.defined()) {
    for (const auto& nodes : pieces_.nodes) {
      there.nodes.push_back(nodes.to(places.options()));
    }
    there.factors = pieces_.factors.to(places.options());
  }
  return there;
}

Jet Table::operator()(const std::vector<Jet>& all,
                      const std::vector<int64_t>& orders) const {
  const auto& pieces =
      pieces_like(all.at(static_cast<size_t>(variables_[0])).value());
  Tensor cell;
  std::vector<std::vector<Jet>> powers;
  for (size_t a = 0; a < variables_.size(); ++a) {
    const auto v = static_cast<size_t>(variables_[a]);
    const auto& nodes = pieces.nodes[a];
    const auto here = all.at(v).value().detach().contiguous();
    const auto along = (torch::searchsorted(nodes, here, /*out_int32=*/false,
                                            /*right=*/true) -
                        1)
                           .clamp(0, nodes.size(0) - 2);
    cell = a == 0 ? along : cell * (nodes.size(0) - 1) + along;
    powers.push_back(powers_of(all[v] + -nodes.take(along), orders.at(a)));
  }
  auto shape = cell.sizes().vec();
  shape.insert(shape.end(), variables_.size(), kPowers);
  return combined(pieces.factors.index_select(0, cell.flatten()).view(shape),
                  powers, 0);
}

}  // namespace propagator::autodiff
