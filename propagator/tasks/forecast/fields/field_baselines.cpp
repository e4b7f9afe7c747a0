#include "propagator/tasks/forecast/fields/field_baselines.h"

#include "propagator/tasks/forecast/fields/field_errors.h"

namespace propagator::tasks {
namespace {

using data::Split;
using torch::Tensor;

constexpr int64_t kMostPairs = 1024;    // of frames that are fitted
constexpr int64_t kMostValidated = 32;  // cases
constexpr int64_t kRanks[] = {4, 16, 64, 256};
constexpr double kRidge = 1e-8;  // of the largest eigenvalue

std::vector<int64_t> repeated(const Tensor& frames, int64_t steps) {
  auto shape = frames.sizes().vec();
  shape[1] = steps;
  return shape;
}

// Frames and those that follow them, (n, F) each, evenly from all training
// cases.
std::pair<Tensor, Tensor> pairs_of(const data::FieldDataset& data) {
  const int64_t all = data.windows(Split::kTrain, 2);
  const int64_t count = std::min(all, kMostPairs);
  const auto at = torch::arange(count, torch::kInt64) * all / count;
  const auto frames =
      data.windows_at(Split::kTrain, at.to(torch::kInt64), 2).frames;
  return {frames.select(1, 0).flatten(1), frames.select(1, 1).flatten(1)};
}

}  // namespace

Tensor keep_field(const Tensor& given, int64_t steps) {
  return given.narrow(1, given.size(1) - 1, 1).expand(repeated(given, steps));
}

MeanField::MeanField(const data::FieldDataset& data) {
  const int64_t cases = data.cases(Split::kTrain);
  for (int64_t n = 0; n < cases; ++n) {
    const auto one =
        data.range(Split::kTrain, n, 1).frames[0].to(torch::kFloat64).mean(0);
    mean_ = mean_.defined() ? mean_ + one : one;
  }
  mean_ = mean_ / cases;
}

Tensor MeanField::operator()(const Tensor& given, int64_t steps) const {
  return mean_.to(given.dtype()).expand(repeated(given, steps));
}

LinearField::LinearField(const data::FieldDataset& data, int64_t given) {
  const auto [now, next] = pairs_of(data);
  mean_ = now.mean(0);
  const auto x = now - mean_, y = next - mean_;
  const auto gram =
      torch::matmul(x.to(torch::kFloat64), x.to(torch::kFloat64).t());
  const auto [values, vectors] = torch::linalg_eigh(gram);
  const double least = kRidge * values.max().item<double>();
  const auto held_out =
      data.range(Split::kValidation, 0, kMostValidated).frames;
  const int64_t steps = data.frames() - given;
  const auto first = held_out.narrow(1, 0, given),
             rest = held_out.narrow(1, given, steps);
  LinearField best = *this;
  double best_error = std::numeric_limits<double>::infinity();
  for (const int64_t wanted : kRanks) {
    const int64_t known = (values > least).sum().item<int64_t>();
    const int64_t r = std::max<int64_t>(1, std::min(wanted, known));
    const int64_t from = values.size(0) - r;
    // Columns of xᵀ U / √λ are of length one.
    const auto scale = values.narrow(0, from, r).clamp_min(least).rsqrt();
    const auto u = vectors.narrow(1, from, r) * scale;
    basis_ = torch::matmul(x.t(), u.to(x.dtype()));
    // z has mean 0: b is the mean of what follows.
    const auto z = torch::matmul(x, basis_).to(torch::kFloat64);
    const auto w = torch::matmul(y, basis_).to(torch::kFloat64);
    auto normal = torch::matmul(z.t(), z);
    normal.diagonal().add_(least);
    step_ = torch::linalg_solve(normal, torch::matmul(z.t(), w)).to(x.dtype());
    offset_ = w.mean(0).to(x.dtype());
    FieldErrors errors;
    errors.add(rest, (*this)(first, steps));
    // One that grows without bound is no answer; NaN is never less.
    if (errors.nrmse() < best_error) {
      best_error = errors.nrmse();
      best = *this;
    }
    if (r < wanted) break;
  }
  if (best.step_.defined()) *this = best;
}

Tensor LinearField::operator()(const Tensor& given, int64_t steps) const {
  auto z = torch::matmul(given.select(1, given.size(1) - 1).flatten(1) - mean_,
                         basis_);
  std::vector<Tensor> frames;
  for (int64_t n = 0; n < steps; ++n) {
    z = torch::matmul(z, step_) + offset_;
    frames.push_back(mean_ + torch::matmul(z, basis_.t()));
  }
  return torch::stack(frames, 1).view(repeated(given, steps));
}

}  // namespace propagator::tasks
