#include "propagator/train/lbfgs_history.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "propagator/core/error.h"
#include "propagator/core/torch_compat.h"

namespace propagator::train {
namespace {

constexpr int64_t kBlock = 65536;

torch::Tensor squared_length(const torch::Tensor& v) {
  const auto wide = v.to(torch::kFloat64);
  return torch::dot(wide, wide).view({1});
}

// (K, n) · (R, n)ᵀ → (K, R) in float64. Float32 rows are not converted, which
// would be several times the memory traffic of the product: the matrix library
// sums a block of columns in its own short runs, and the sums of blocks are
// added in float64. What is left is an error of about 1e-8 |a| |b|, below that
// of the gradients themselves.
torch::Tensor products(const torch::Tensor& columns,
                       const torch::Tensor& rows) {
  auto sum = torch::zeros({columns.size(0), rows.size(0)},
                          columns.options().dtype(torch::kFloat64));
  const int64_t n = rows.size(1);
  for (int64_t from = 0; from < n; from += kBlock) {
    const int64_t width = std::min(kBlock, n - from);
    sum += torch::mm(columns.narrow(1, from, width),
                     rows.narrow(1, from, width).t());
  }
  return sum;
}

}  // namespace

torch::Tensor state_entry(const std::map<std::string, torch::Tensor>& state,
                          const std::string& name, torch::ScalarType type,
                          torch::IntArrayRef shape) {
  const auto found = state.find(name);
  if (found == state.end()) {
    throw DataError(fmt::format("[lbfgs] expected '{}', got nothing", name));
  }
  const auto& tensor = found->second;
  if (tensor.scalar_type() != type || tensor.sizes() != shape) {
    throw DataError(
        fmt::format(
            "[lbfgs] expected '{}' of type {} and shape ({}), got {} and ({})",
            name, torch::toString(type), fmt::join(shape.vec(), ", "),
            torch::toString(tensor.scalar_type()),
            fmt::join(tensor.sizes().vec(), ", ")),
        "a run goes on with its own options and precision, or from fp32 in "
        "fp64");
  }
  return tensor.cpu().contiguous();
}

LbfgsHistory::LbfgsHistory(int64_t size, const torch::Tensor& like)
    : slots_(size + 1),
      rows_(torch::empty({2 * slots_, like.numel()}, like.options())),
      sy_(slots_ * slots_),
      yy_(slots_ * slots_) {}

void LbfgsHistory::forget() {
  first_ = count_ = used_ = 0;
  offered_ = false;
}

void LbfgsHistory::offer(const torch::Tensor& s, const torch::Tensor& y) {
  const torch::NoGradGuard no_grad;
  const int64_t at = slot(count_);
  rows_[2 * at].copy_(s);
  rows_[2 * at + 1].copy_(y);
  used_ = std::max(used_, at + 1);
  offered_ = true;
}

double LbfgsHistory::direction(const torch::Tensor& g, torch::Tensor& out) {
  const torch::NoGradGuard no_grad;
  // The products of ten bits that TF32 makes would spoil the curvature.
  const Tf32Scope full_precision(false);
  if (count_ == 0 && !offered_) {
    torch::neg_out(out, g);
    return -squared_length(g).item<double>();
  }
  const auto rows = rows_.narrow(0, 0, 2 * used_);  // (2 used, n)
  const int64_t at = slot(count_);
  const auto s = offered_ ? rows_[2 * at] : g;
  const auto columns =  // (1 or 2, n)
      offered_ ? torch::stack({g, rows_[2 * at + 1]}) : g.unsqueeze(0);
  const auto read =  // the one wait
      torch::cat({squared_length(g), squared_length(s),
                  products(columns, rows).flatten()})
          .cpu();
  const double* squares = read.data_ptr<double>();
  const double* with_g = squares + 2;
  if (offered_) decide(with_g + 2 * used_, squares[1]);

  std::vector<double> coefficients(2 * used_);
  const double gamma = recursion(with_g, coefficients);
  double slope = -gamma * squares[0];
  for (int64_t r = 0; r < 2 * used_; ++r) slope += coefficients[r] * with_g[r];
  const auto weights =
      torch::tensor(coefficients, torch::kFloat64).to(g.options());
  auto row = out.unsqueeze(0);
  torch::addmm_out(row, g.unsqueeze(0), weights.unsqueeze(0), rows, -gamma);
  return slope;
}

void LbfgsHistory::decide(const double* products, double s_squared) {
  const int64_t at = slot(count_);
  for (int64_t i = 0; i < used_; ++i) {
    sy(i, at) = products[2 * i];
    yy(i, at) = yy(at, i) = products[2 * i + 1];
  }
  offered_ = false;
  // H stays positive and bounded if each pair has s·y ≥ ε |s| |y|: a cosine, so
  // that neither the unit of the loss nor that of the parameters matters. A
  // loss of condition κ gives cosines above 2 / sqrt(κ); 1e-10 refuses none
  // that float64 can resolve, and in float32 a cosine below the type's epsilon
  // has no certain sign.
  const double epsilon = rows_.scalar_type() == torch::kFloat64
                             ? 1e-10
                             : std::numeric_limits<float>::epsilon();
  if (!(sy(at, at) > epsilon * std::sqrt(s_squared * yy(at, at)))) {
    rows_.narrow(0, 2 * at, 2).zero_();
  } else if (count_ < slots_ - 1) {
    ++count_;
  } else {
    first_ = slot(1);
  }
}

double LbfgsHistory::recursion(const double* products,
                               std::vector<double>& coefficients) {
  if (count_ == 0) return 1;
  const int64_t newest = slot(count_ - 1);
  const double gamma = sy(newest, newest) / yy(newest, newest);
  // From the newest: q = g - Σ a_l y_l, with a_k = s_k·q / s_k·y_k.
  std::vector<double> a(count_), c(count_);
  for (int64_t k = count_ - 1; k >= 0; --k) {
    const int64_t i = slot(k);
    double s_q = products[2 * i];
    for (int64_t l = k + 1; l < count_; ++l) s_q -= a[l] * sy(i, slot(l));
    a[k] = s_q / sy(i, i);
  }
  // From the oldest: r = γ q + Σ c_l s_l, with c_k = a_k - y_k·r / s_k·y_k.
  for (int64_t k = 0; k < count_; ++k) {
    const int64_t i = slot(k);
    double y_q = products[2 * i + 1], y_s = 0;
    for (int64_t l = 0; l < count_; ++l) y_q -= a[l] * yy(i, slot(l));
    for (int64_t l = 0; l < k; ++l) y_s += c[l] * sy(slot(l), i);
    c[k] = a[k] - (gamma * y_q + y_s) / sy(i, i);
    coefficients[2 * i] = -c[k];
    coefficients[2 * i + 1] = gamma * a[k];
  }
  return gamma;
}

std::map<std::string, torch::Tensor> LbfgsHistory::state() const {
  const auto square_of = [&](const std::vector<double>& values) {
    return torch::tensor(values, torch::kFloat64).view({slots_, slots_});
  };
  return {{"pairs", rows_.narrow(0, 0, 2 * used_)},
          {"sy", square_of(sy_)},
          {"yy", square_of(yy_)},
          {"ring", torch::tensor({first_, count_, used_, int64_t{offered_}},
                                 torch::kInt64)}};
}

void LbfgsHistory::restore(const std::map<std::string, torch::Tensor>& state) {
  const torch::NoGradGuard no_grad;
  const auto sy = state_entry(state, "sy", torch::kFloat64, {slots_, slots_});
  const auto yy = state_entry(state, "yy", torch::kFloat64, {slots_, slots_});
  const auto ring = state_entry(state, "ring", torch::kInt64, {4});
  const int64_t* at = ring.data_ptr<int64_t>();
  const bool fits = at[0] >= 0 && at[0] < slots_ && at[1] >= 0 &&
                    at[1] < slots_ && at[2] >= 0 && at[2] <= slots_ &&
                    (at[3] == 0 || at[3] == 1) &&
                    (at[2] == slots_ || at[0] + at[1] + at[3] <= at[2]);
  if (!fits) {
    throw DataError(fmt::format(
        "[lbfgs] expected a ring of {} rows, got first {}, count {}, used {}, "
        "offered {}",
        slots_, at[0], at[1], at[2], at[3]));
  }
  const auto pairs = state_entry(state, "pairs", rows_.scalar_type(),
                                 {2 * at[2], rows_.size(1)});
  rows_.narrow(0, 0, 2 * at[2]).copy_(pairs);
  sy_.assign(sy.data_ptr<double>(), sy.data_ptr<double>() + slots_ * slots_);
  yy_.assign(yy.data_ptr<double>(), yy.data_ptr<double>() + slots_ * slots_);
  first_ = at[0], count_ = at[1], used_ = at[2], offered_ = at[3] != 0;
}

}  // namespace propagator::train
