#include "propagator/tasks/forecast/fields/field_errors.h"

#include <torch/fft.h>

#include <numeric>

#include "propagator/report/figure.h"
#include "propagator/tasks/forecast/fields/field_spectrum.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

constexpr double kVarianceFloor = 1e-7;  // as the measure has it
constexpr double kLeastNorm = 1e-12;     // a frame of zeros
constexpr double kCorrelated = 0.8;

// (B, T, nodes…, C) → (B, T, nodes, C)
Tensor flat_nodes(const Tensor& x) { return x.flatten(2, -2); }

void accumulate(Tensor& sum, const Tensor& part) {
  const auto here = part.to(torch::kCPU, torch::kFloat64);
  sum = sum.defined() ? sum + here : here;
}

}  // namespace

Tensor correlated_frames(const Tensor& truth, const Tensor& answer) {
  const auto centred = [](const Tensor& x) {
    const auto flat = flat_nodes(x);
    return (flat - flat.mean(2, /*keepdim=*/true)).flatten(2);
  };
  const auto a = centred(truth), b = centred(answer);
  const auto along =
      (a * b).sum(-1) / (a.norm(2, -1) * b.norm(2, -1)).clamp_min(kLeastNorm);
  // Those before the first that is below: a product of flags, frame by frame.
  return (along >= kCorrelated).to(torch::kFloat64).cumprod(1).sum(1);
}

void FieldErrors::add(const Tensor& truth, const Tensor& answer) {
  const auto error = (answer - truth).to(torch::kFloat64);
  const auto y = flat_nodes(truth.to(torch::kFloat64));
  const auto e = flat_nodes(error);
  const auto mse = e.square().mean(2),
             square = y.square().mean(2);  // (B, T, C)
  const auto scale = square.sqrt().clamp_min(kLeastNorm);
  cases_ += truth.size(0);
  const auto nrmse = mse.sqrt() / scale;
  accumulate(nrmse_, nrmse.sum(0));
  per_case_.push_back(nrmse.mean(2).to(torch::kCPU));
  const auto variance = y.var(2, /*unbiased=*/false);
  accumulate(vrmse_, (mse / (variance + kVarianceFloor)).sqrt().sum(0));
  accumulate(squares_, mse.sum(0));
  accumulate(mean_, e.mean(2).square().sum(0));
  relative_ +=
      (e.flatten(1).norm(2, 1) / y.flatten(1).norm(2, 1).clamp_min(kLeastNorm))
          .sum()
          .item<double>();
  correlated_ += correlated_frames(truth, answer).sum().item<double>();
  add_spectrum(error, scale);
}

void FieldErrors::add_spectrum(const Tensor& error, const Tensor& scale) {
  std::vector<int64_t> axes(static_cast<size_t>(error.dim() - 3));
  std::iota(axes.begin(), axes.end(), 2);
  std::vector<int64_t> nodes;
  for (const int64_t d : axes) nodes.push_back(error.size(d));
  const auto spectrum =
      torch::fft::fftn(error, at::OptionalIntArrayRef(), axes);
  const auto power = flat_nodes(torch::abs(spectrum).square());
  const auto count = static_cast<double>(power.size(2));
  const auto k = largest_frequency(nodes, error.device());
  std::vector<Tensor> bands;
  for (const auto& inside :
       {k <= kLowBand, (k > kLowBand) & (k <= kMiddleBand), k > kMiddleBand}) {
    const auto weight = inside.to(power.dtype()).view({1, 1, -1, 1});
    // Parseval: Σ |ê|² = count · Σ e².
    const auto mse = (power * weight).sum(2) / (count * count);
    bands.push_back((mse.sqrt() / scale).mean({1, 2}).sum());
  }
  accumulate(bands_, torch::stack(bands));
}

std::vector<double> FieldErrors::quantile_per_frame(double q) const {
  return report::numbers(torch::quantile(torch::cat(per_case_), q, 0));
}

double FieldErrors::nrmse() const {
  return (nrmse_ / cases_).mean().item<double>();
}

nlohmann::json FieldErrors::numbers(
    const std::vector<std::string>& channels) const {
  const auto mean = [&](const Tensor& sum) {
    return (sum / cases_).mean().item<double>();
  };
  const auto per_channel = (nrmse_ / cases_).mean(0);
  const auto per_frame = (nrmse_ / cases_).mean(1);
  nlohmann::json by_channel;
  for (size_t c = 0; c < channels.size(); ++c) {
    by_channel[channels[c]] =
        per_channel[static_cast<int64_t>(c)].item<double>();
  }
  const auto bands = report::numbers(bands_ / cases_);
  const auto cases = static_cast<double>(cases_);
  return {
      {"nrmse", mean(nrmse_)},
      {"vrmse", mean(vrmse_)},
      {"relative_l2", relative_ / cases},
      {"rmse", std::sqrt(mean(squares_))},
      {"crmse", std::sqrt(mean(mean_))},
      {"correlated_frames", correlated_ / cases},
      {"bands", {{"low", bands[0]}, {"middle", bands[1]}, {"high", bands[2]}}},
      {"nrmse_per_channel", by_channel},
      {"nrmse_geometric", per_frame.log().mean().exp().item<double>()},
      {"nrmse_per_frame", report::numbers(per_frame)},
      {"nrmse_per_frame_10", quantile_per_frame(0.1)},
      {"nrmse_per_frame_90", quantile_per_frame(0.9)}};
}

}  // namespace propagator::tasks
