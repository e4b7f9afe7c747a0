#include "propagator/autodiff/jet.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "propagator/kernels/jet/jet_linear.h"
#include "propagator/kernels/jet/jet_wavelet.h"

namespace propagator::autodiff {
namespace {

using torch::Tensor;

thread_local bool promised_once = false;

// a and b with as many dimensions, filled up with ones behind the rows.
std::pair<Tensor, Tensor> aligned(const Tensor& a, const Tensor& b) {
  const auto widened = [](const Tensor& x, int64_t dims) {
    auto shape = x.sizes().vec();
    shape.insert(shape.begin() + 1, static_cast<size_t>(dims - x.dim()), 1);
    return x.view(shape);
  };
  const int64_t dims = std::max(a.dim(), b.dim());
  return {a.dim() < dims ? widened(a, dims) : a,
          b.dim() < dims ? widened(b, dims) : b};
}

const JetLayout& common_layout(const Jet& a, const Jet& b, const char* where) {
  if (a.is_constant()) return b.layout();
  if (!b.is_constant() && a.layout() != b.layout()) {
    throw std::invalid_argument(
        fmt::format("[{}] expected two jets of one layout, got {} and {} rows",
                    where, a.layout().rows(), b.layout().rows()));
  }
  return a.layout();
}

// The rows with a number, or a tensor that broadcasts, added to the first.
template <class Value>
Tensor plus_value(const Tensor& rows, const Value& value) {
  if (rows.size(0) == 1) return rows + value;
  const auto parts = rows.split_with_sizes({1, rows.size(0) - 1});
  const auto sum = parts[0] + value;
  auto shape = sum.sizes().vec();
  shape[0] = parts[1].size(0);
  return torch::cat({sum, parts[1].expand(shape)});
}

// A coefficient, (directions, …), of the first `count` of them; one that all
// directions share stays as it is.
Tensor first(const Tensor& coefficient, int64_t count) {
  return coefficient.size(0) <= count ? coefficient
                                      : coefficient.narrow(0, 0, count);
}

// c_k = Σ a_j · b_(k-j) for a product that is linear in both.
template <class Product>
Jet cauchy(const Jet& a, const Jet& b, const char* where, Product&& product) {
  const auto layout = common_layout(a, b, where);
  if (a.is_constant() || b.is_constant()) {
    return Jet(product(a.rows(), b.rows()), layout);
  }
  const auto x = a.coefficients(), y = b.coefficients();
  std::vector<Tensor> rows;
  for (int64_t k = 0; k <= layout.order(); ++k) {
    const int64_t count = layout.directions(k);
    Tensor sum;
    for (int64_t j = 0; j <= k; ++j) {
      auto term = product(first(x[static_cast<size_t>(j)], count),
                          first(y[static_cast<size_t>(k - j)], count));
      if (j > 0 && j < k) term = layout.together(term);
      sum = sum.defined() ? sum + term : term;
    }
    rows.push_back(sum);
  }
  return Jet(torch::cat(rows), layout);
}

}  // namespace

JetLayout::JetLayout(std::vector<int64_t> orders) : orders_(std::move(orders)) {
  if (!std::is_sorted(orders_.rbegin(), orders_.rend()) ||
      (!orders_.empty() && orders_.back() < 1)) {
    throw std::invalid_argument(
        "[JetLayout] expected orders of 1 or more that do not rise");
  }
  for (const int64_t order : orders_) rows_ += order;
}

JetLayout JetLayout::summed(std::vector<int64_t> orders,
                            const std::vector<int>& signs) {
  JetLayout layout(std::move(orders));
  const int64_t count = layout.directions(2);
  if (layout.order() != 2 || std::ssize(signs) != count ||
      count > kernels::kMostSummed) {
    throw std::invalid_argument(fmt::format(
        "[JetLayout] expected order 2 and a sign for each of its at most {} "
        "directions, got order {} and {} signs for {}",
        kernels::kMostSummed, layout.order(), signs.size(), count));
  }
  layout.rows_ -= count - 1;
  layout.summed_ = true;
  for (size_t r = 0; r < signs.size(); ++r) {
    if (signs[r] < 0) layout.minus_ |= uint32_t{1} << r;
  }
  return layout;
}

Tensor JetLayout::together(const Tensor& rows) const {
  if (!summed_) return rows;
  const auto o = orders();
  const auto each = rows.unbind();
  auto total = each[0] * o.sign(1);
  for (size_t r = 1; r < each.size(); ++r) {
    total = torch::add(total, each[r], o.sign(static_cast<int64_t>(r) + 1));
  }
  return total.unsqueeze(0);
}

int64_t JetLayout::directions(int64_t k) const {
  if (k == 0) return 1;
  return std::count_if(orders_.begin(), orders_.end(),
                       [k](int64_t order) { return order >= k; });
}

int64_t JetLayout::first_row(int64_t k) const {
  int64_t row = 0;
  for (int64_t j = 0; j < k; ++j) row += directions(j);
  return row;
}

Jet::Jet(Tensor rows, JetLayout layout)
    : rows_(std::move(rows)), layout_(std::move(layout)) {
  if (rows_.dim() == 0 || rows_.size(0) != layout_.rows()) {
    throw std::invalid_argument(
        fmt::format("[Jet] expected {} rows, got {}", layout_.rows(),
                    rows_.dim() == 0 ? 0 : rows_.size(0)));
  }
}

Jet Jet::constant(const Tensor& value) { return {value.unsqueeze(0), {}}; }

Jet Jet::moving(const Tensor& points, const Tensor& directions,
                const JetLayout& layout) {
  if (directions.dim() != 2 || directions.size(0) != layout.directions(1) ||
      directions.size(1) != points.size(-1)) {
    throw std::invalid_argument(fmt::format(
        "[Jet] expected directions ({}, {}), got ({})", layout.directions(1),
        points.size(-1), fmt::join(directions.sizes(), ", ")));
  }
  if (layout.order() == 0) return constant(points);
  // Rows (n, D), the same at all points.
  const auto everywhere = [&](const Tensor& rows) {
    auto shape = rows.sizes().vec();
    shape.insert(shape.begin() + 1, static_cast<size_t>(points.dim() - 1), 1);
    auto all = points.sizes().vec();
    all.insert(all.begin(), rows.size(0));
    return rows.view(shape).expand(all);
  };
  const int64_t higher = layout.rows() - 1 - directions.size(0);
  return {torch::cat({points.unsqueeze(0), everywhere(directions),
                      everywhere(torch::zeros({higher, points.size(-1)},
                                              points.options()))}),
          layout};
}

std::vector<Tensor> Jet::coefficients() const {
  std::vector<int64_t> sizes;
  for (int64_t k = 0; k <= layout_.order(); ++k) {
    sizes.push_back(layout_.is_summed_at(k) ? 1 : layout_.directions(k));
  }
  return rows_.split_with_sizes(sizes);
}

DifferentiatedOnce::DifferentiatedOnce(bool promised)
    : before_(std::exchange(promised_once, promised)) {}

DifferentiatedOnce::~DifferentiatedOnce() { promised_once = before_; }

bool allows_kernels(const Jet& x) {
  const auto& rows = x.rows();
  const int64_t order = x.layout().order();
  const bool once =
      order > 0 || promised_once || !torch::GradMode::is_enabled();
  return order <= 2 && once && (rows.is_cpu() || rows.is_cuda()) &&
         (rows.scalar_type() == torch::kFloat32 ||
          rows.scalar_type() == torch::kFloat64);
}

Jet operator+(const Jet& a, const Jet& b) {
  const auto& layout = common_layout(a, b, "jet +");
  const auto [x, y] = aligned(a.rows(), b.rows());
  if (a.is_constant() == b.is_constant()) return {x + y, layout};
  return {a.is_constant() ? plus_value(y, x) : plus_value(x, y), layout};
}

Jet operator-(const Jet& a) { return {-a.rows(), a.layout()}; }
Jet operator-(const Jet& a, const Jet& b) { return a + -b; }

Jet operator*(const Jet& a, const Jet& b) {
  return cauchy(a, b, "jet *", [](const Tensor& x, const Tensor& y) {
    const auto [left, right] = aligned(x, y);
    return left * right;
  });
}

Jet operator/(const Jet& a, const Jet& b) { return a * reciprocal(b); }

Jet operator+(const Jet& a, const Tensor& b) { return a + Jet::constant(b); }
Jet operator*(const Jet& a, const Tensor& b) { return a * Jet::constant(b); }

Jet operator+(const Jet& a, double b) {
  if (b == 0) return a;
  return {plus_value(a.rows(), b), a.layout()};
}

Jet operator*(const Jet& a, double b) { return {a.rows() * b, a.layout()}; }

Jet matmul(const Jet& a, const Jet& b) {
  return cauchy(a, b, "jet matmul", [](const Tensor& x, const Tensor& y) {
    const auto [left, right] = aligned(x, y);
    return torch::matmul(left, right);
  });
}

Jet linear(const Jet& x, const Tensor& weight, const Tensor& bias) {
  if (!bias.defined()) return {torch::matmul(x.rows(), weight.t()), x.layout()};
  if (allows_kernels(x)) {
    return {kernels::jet_linear(x.rows(), weight, bias), x.layout()};
  }
  if (x.is_constant()) {
    return {torch::linear(x.rows(), weight, bias), x.layout()};
  }
  const auto products = torch::matmul(x.rows(), weight.t());
  return {plus_value(products, bias), x.layout()};
}

Jet linear_of_waves(const Jet& x, const Tensor& w1, const Tensor& w2,
                    const Tensor& weight, const Tensor& bias) {
  if (x.is_constant() || !allows_kernels(x)) {
    return linear(waves(x, w1, w2), weight, bias);
  }
  return {kernels::jet_wavelet_linear(x.rows(), w1, w2, weight, bias,
                                      x.layout().orders()),
          x.layout()};
}

Jet compose(const Jet& x, const std::vector<Tensor>& f) {
  const auto& layout = x.layout();
  const int64_t order = layout.order();
  if (static_cast<int64_t>(f.size()) <= order) {
    throw std::invalid_argument(fmt::format(
        "[compose] expected {} coefficients, got {}", order + 1, f.size()));
  }
  if (order == 0) return Jet::constant(f[0]);
  // powers[j][k]: coefficient k of (x - x_0)ʲ, zero for k < j.
  using Series = std::vector<Tensor>;
  const auto entries = static_cast<size_t>(order) + 1;
  std::vector<Series> powers(entries, Series(entries));
  const auto coefficients = x.coefficients();
  std::vector<Tensor> rows{f[0].unsqueeze(0)};
  for (int64_t k = 1; k <= order; ++k) {
    const int64_t count = layout.directions(k);
    const auto at = static_cast<size_t>(k);
    powers[1][at] = coefficients[at];
    auto sum = f[1] * powers[1][at];
    for (size_t j = 2; j <= at; ++j) {
      Tensor power;
      for (size_t i = j - 1; i < at; ++i) {
        const auto term = layout.together(first(powers[j - 1][i], count) *
                                          first(powers[1][at - i], count));
        power = power.defined() ? power + term : term;
      }
      powers[j][at] = power;
      sum = sum + f[j] * power;
    }
    rows.push_back(sum);
  }
  return {torch::cat(rows), layout};
}

Jet sum(const Jet& x, int64_t dim, bool keepdim) {
  return {x.rows().sum(dim, keepdim), x.layout()};
}

Jet mean(const Jet& x, int64_t dim, bool keepdim) {
  return {x.rows().mean(dim, keepdim), x.layout()};
}

Jet softmax(const Jet& x) {
  if (x.is_constant()) return {torch::softmax(x.rows(), -1), x.layout()};
  const auto largest = x.value().amax(-1, /*keepdim=*/true).detach();
  const auto weights = exp(x + -largest);
  return weights / sum(weights, -1, /*keepdim=*/true);
}

Jet layer_norm(const Jet& x, const Tensor& weight, const Tensor& bias,
               double eps) {
  const auto centred = x - mean(x, -1, /*keepdim=*/true);
  const auto variance = mean(centred * centred, -1, /*keepdim=*/true);
  auto y = centred * pow(variance + eps, -0.5);
  if (weight.defined()) y = y * weight;
  return bias.defined() ? y + bias : y;
}

Jet cat(const std::vector<Jet>& parts, int64_t dim) {
  std::vector<Tensor> rows;
  for (const auto& part : parts) {
    if (part.layout() != parts.front().layout()) {
      throw std::invalid_argument("[jet cat] expected jets of one layout");
    }
    rows.push_back(part.rows());
  }
  return {torch::cat(rows, dim), parts.front().layout()};
}

Jet narrow(const Jet& x, int64_t dim, int64_t start, int64_t length) {
  return {x.rows().narrow(dim, start, length), x.layout()};
}

}  // namespace propagator::autodiff
