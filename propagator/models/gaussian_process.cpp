#include "propagator/models/gaussian_process.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/log.h"
#include "propagator/core/progress.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using torch::Tensor;

// What the fit finds for each field, as the model's file has it.
constexpr const char* kProcessWeights = "weights";  // (M, F)
constexpr const char* kProcessLengths = "lengths";  // (F, D)
constexpr const char* kAmplitude = "amplitude";     // (F), σ²
constexpr const char* kNoise = "noise";             // (F), ρ
constexpr const char* kCovariance = "covariance";   // (K, M, M), L⁻¹

// A process needs some that differ.
constexpr int64_t kFewest = 3;

nn::Radial process_radial(ProcessKernel kernel) {
  return kernel == ProcessKernel::kMatern52 ? nn::Radial::kMatern52
                                            : nn::Radial::kSquaredExponential;
}

}  // namespace

void GaussianProcessOptions::describe(config::Schema& s) {
  s.field("kernel", kernel,
          {.help = "covariance of a field at two points, by their distance in "
                   "units of a length for each axis"});
  s.field("evaluations", evaluations,
          {.help = "evaluations of the marginal likelihood of a field, at most",
           .min = 1,
           .max = 100000});
  s.field("search_readings", search_readings,
          {.help = "readings, drawn at random, whose likelihood finds lengths "
                   "and noise; 0 takes all. The answer is always from all",
           .min = 0});
}

int64_t GaussianProcessOptions::smoothness() const {
  return nn::smoothness_of(process_radial(kernel));
}

std::shared_ptr<FieldNet> GaussianProcessOptions::make(
    const FieldDomain& domain) const {
  return std::make_shared<GaussianProcess>(*this, domain);
}

GaussianProcess::GaussianProcess(const GaussianProcessOptions& options,
                                 const FieldDomain& domain)
    : FittedNet(domain),
      options_(options),
      kernel_(process_radial(options.kernel)),
      fields_(domain.fields - std::ssize(domain.log_variances_of)) {
  declare(kProcessWeights, {kSensors, fields_});
  declare(kProcessLengths, {fields_, domain.variables()});
  declare(kAmplitude, {fields_});
  declare(kNoise, {fields_});
  if (!domain.log_variances_of.empty()) {
    declare(kCovariance,
            {std::ssize(domain.log_variances_of), kSensors, kSensors});
  }
}

void GaussianProcess::fit(const autodiff::Observations& all) {
  const auto& places = all.points;
  const auto& readings = all.readings;
  const int64_t sensors = places.size(0);
  auto weights = torch::zeros({sensors, fields_}, torch::kFloat64);
  auto lengths = torch::ones({fields_, places.size(1)}, torch::kFloat64);
  auto amplitude = torch::ones({fields_}, torch::kFloat64);
  auto noise = torch::zeros({fields_}, torch::kFloat64);
  const auto& asked = domain().log_variances_of;
  auto covariance =
      torch::zeros({std::ssize(asked), sensors, sensors}, torch::kFloat64);
  const nn::KrigingSearch search{options_.evaluations,
                                 options_.search_readings};
  const int64_t most = nn::most_evaluations(search);
  Progress progress("fitting", fields_ * most);
  for (int64_t f = 0; f < fields_; ++f) {
    const auto read = ReadColumn::of(readings.select(1, f));
    const auto& y = read.values;
    if (y.size(0) < kFewest || (y - y[0]).abs().max().item<double>() == 0) {
      continue;  // the mean is all that is known
    }
    const auto at = places.index_select(0, read.rows);
    int64_t evaluations = f * most;
    const auto found = nn::fit_kriging(kernel_, at, y, search,
                                       [&] { progress.update(++evaluations); });
    const auto solution = nn::solve_kriging(kernel_, at, y, found);
    weights.select(1, f).index_copy_(0, read.rows, solution.weights);
    lengths[f].copy_(found.lengths);
    amplitude[f] = solution.amplitude;
    noise[f] = solution.noise;
    const auto wanted = std::ranges::find(asked, f);
    if (wanted != asked.end()) {
      covariance[wanted - asked.begin()].index_put_(
          {read.rows.unsqueeze(1), read.rows}, solution.factor);
    }
    const auto* l = found.lengths.data_ptr<double>();
    log::info(
        "process of field {}: lengths {:.3g} of half an axis, standard "
        "deviation {:.3g}, noise {:.3g} of the readings'",
        f, fmt::join(l, l + found.lengths.size(0), ", "),
        std::sqrt(solution.amplitude),
        std::sqrt(solution.amplitude * solution.noise));
  }
  set(kProcessWeights, weights);
  set(kProcessLengths, lengths);
  set(kAmplitude, amplitude);
  set(kNoise, noise);
  if (!asked.empty()) set(kCovariance, covariance);
}

Jet GaussianProcess::log_variance(const Jet& kernel, int64_t field,
                                  int64_t number) const {
  const auto factor = get(kCovariance)[number].t();
  const auto known =
      kernel.linear([&](const Tensor& k) { return torch::matmul(k, factor); });
  const auto noise = get(kNoise)[field];
  const auto left = -autodiff::sum(known * known, -1, false) + (1 + noise);
  // Rounding may leave less than the noise.
  const auto value = torch::maximum(left.value(), noise.clamp_min(1e-300));
  const Jet variance(torch::cat({value.unsqueeze(0), left.rows().slice(0, 1)}),
                     left.layout());
  return autodiff::log(variance) + get(kAmplitude)[field].log();
}

Jet GaussianProcess::answer(const Jet& points) {
  const auto& asked = domain().log_variances_of;
  std::vector<Tensor> answers(static_cast<size_t>(domain().fields));
  for (int64_t f = 0; f < fields_; ++f) {
    const auto scale = 1 / get(kProcessLengths)[f];
    const auto kernel = nn::radial_of(
        kernel_, nn::squared_distances(points * scale, places() * scale));
    answers[static_cast<size_t>(f)] =
        torch::matmul(kernel.rows(), get(kProcessWeights).select(1, f));
    const auto wanted = std::ranges::find(asked, f);
    if (wanted == asked.end()) continue;
    const auto number = wanted - asked.begin();
    answers[static_cast<size_t>(fields_ + number)] =
        log_variance(kernel, f, number).rows();
  }
  return {torch::stack(answers, -1), points.layout()};
}

}  // namespace propagator::models
