#include "propagator/models/radial_basis.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/progress.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using torch::Tensor;

constexpr const char* kBasisWeights = "weights";  // (M, F)
constexpr const char* kBasisTail = "tail";        // (D + 1, F)
constexpr const char* kBasisLengths = "lengths";  // (F), of a Gaussian

// Lengths that are tried for a Gaussian, and how many to the next.
constexpr double kShortest = 0.1, kRatio = 1.5;
constexpr int64_t kLengthsTried = 10;
// Smoothings that are tried: 0, and from here upwards.
constexpr double kLeastSmoothing = 1e-9;
constexpr int64_t kSmoothingsTried = 21;  // two for each power of ten

nn::Radial basis_radial(BasisKernel kernel) {
  switch (kernel) {
    case BasisKernel::kThinPlate:
      return nn::Radial::kThinPlate;
    case BasisKernel::kCubic:
      return nn::Radial::kCubic;
    case BasisKernel::kGaussian:
      return nn::Radial::kSquaredExponential;
  }
  return nn::Radial::kCubic;
}

// 0 unless it is a number above 0.
double factor_of(const std::string& text) {
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  const bool good = read.ec == std::errc() && read.ptr == end;
  return good && std::isfinite(value) && value > 0 ? value : 0;
}

Tensor factors_of(const std::vector<std::string>& texts, int64_t axes) {
  auto factors = torch::ones({axes}, torch::kFloat64);
  for (size_t a = 0; a < texts.size(); ++a) {
    factors[static_cast<int64_t>(a)] = factor_of(texts[a]);
  }
  return factors;
}

std::vector<double> smoothings_of(const RadialBasisOptions& options) {
  if (!options.choose_smoothing) return {options.smoothing};
  std::vector<double> all{0};
  for (int64_t n = 0; n < kSmoothingsTried; ++n) {
    all.push_back(kLeastSmoothing * std::pow(10, 0.5 * static_cast<double>(n)));
  }
  return all;
}

std::vector<double> lengths_of(const RadialBasisOptions& options) {
  if (options.kernel != BasisKernel::kGaussian) return {1};
  if (options.length > 0) return {options.length};
  std::vector<double> all;
  for (int64_t n = 0; n < kLengthsTried; ++n) {
    all.push_back(kShortest * std::pow(kRatio, static_cast<double>(n)));
  }
  return all;
}

}  // namespace

void RadialBasisOptions::describe(config::Schema& s) {
  s.field("kernel", kernel,
          {.help = "function of the distance to a sensor: r² log r, r³, or a "
                   "Gaussian"});
  s.field("smoothing", smoothing,
          {.help = "number added to the diagonal of the system, which lets the "
                   "answer pass readings by; 0 interpolates",
           .min = 0,
           .max = 1e6});
  s.field("choose_smoothing", choose_smoothing,
          {.help = "the smoothing of each field is the one with the least "
                   "leave-one-out error"});
  s.field("length", length,
          {.help = "length of a Gaussian, over axes on [-1, 1]; 0 takes the "
                   "one with the least leave-one-out error",
           .min = 0,
           .max = 1000});
  s.field("factors", factors,
          {.help = "factor of each axis on [-1, 1], by which distances along "
                   "it count more; if there are none, 1"});
}

void RadialBasisOptions::validate(const FieldDomain& domain) const {
  if (choose_smoothing && smoothing > 0) {
    throw ConfigError("model.smoothing",
                      "model.choose_smoothing chooses another",
                      "leave out one of them");
  }
  if (length > 0 && kernel != BasisKernel::kGaussian) {
    throw ConfigError("model.length",
                      fmt::format("{} has no length", config::name_of(kernel)),
                      "set model.kernel=gaussian, or leave it out");
  }
  if (!factors.empty() && std::ssize(factors) != domain.variables()) {
    throw ConfigError("model.factors",
                      fmt::format("expected {}, one for each axis, got {}",
                                  domain.variables(), factors.size()));
  }
  for (const auto& text : factors) {
    if (factor_of(text) > 0) continue;
    throw ConfigError("model.factors",
                      fmt::format("expected numbers above 0, got '{}'", text));
  }
  if (!domain.log_variances_of.empty()) {
    throw ConfigError("loss.readings",
                      "radial_basis has no variance to predict",
                      "set loss.readings=mse, or model.name=gaussian_process");
  }
}

int64_t RadialBasisOptions::smoothness() const {
  return nn::smoothness_of(basis_radial(kernel));
}

std::shared_ptr<FieldNet> RadialBasisOptions::make(
    const FieldDomain& domain) const {
  return std::make_shared<RadialBasis>(*this, domain);
}

RadialBasis::RadialBasis(const RadialBasisOptions& options,
                         const FieldDomain& domain)
    : FittedNet(domain),
      options_(options),
      kernel_(basis_radial(options.kernel)) {
  declare(kBasisWeights, {kSensors, domain.fields});
  declare(kBasisTail, {domain.variables() + 1, domain.fields});
  declare(kBasisLengths, {domain.fields});
  factors_ = register_buffer("factors",
                             factors_of(options.factors, domain.variables()));
}

RadialBasis::Fitted RadialBasis::fit_field(const Tensor& places,
                                           const Tensor& y) const {
  Fitted best;
  double least = std::numeric_limits<double>::infinity();
  const auto lengths = lengths_of(options_);
  const auto smoothings = smoothings_of(options_);
  for (const double length : lengths) {
    const auto s = nn::squared_distances(places, places) / (length * length);
    const nn::RadialSystem system(nn::radial_of(kernel_, s), places);
    for (const double smoothing : smoothings) {
      // There may be nothing to choose from.
      const double error =
          lengths.size() * smoothings.size() == 1
              ? 0
              : system.leave_one_out(y, smoothing).norm().item<double>();
      if (!(error < least)) continue;
      least = error;
      best = {length, smoothing, system.solve(y, smoothing)};
    }
  }
  return best;
}

void RadialBasis::fit(const autodiff::Observations& all) {
  const auto& places = all.points;
  const auto& readings = all.readings;
  const int64_t fields = readings.size(1);
  auto weights = torch::zeros({places.size(0), fields}, torch::kFloat64);
  auto tail = torch::zeros({places.size(1) + 1, fields}, torch::kFloat64);
  auto lengths = torch::ones({fields}, torch::kFloat64);
  const auto scaled = places * factors_.cpu();
  Progress progress("fitting", fields);
  for (int64_t f = 0; f < fields; ++f) {
    progress.update(f);
    const auto read = ReadColumn::of(readings.select(1, f));
    if (read.values.size(0) == 0) continue;
    const auto [length, smoothing, solution] =
        fit_field(scaled.index_select(0, read.rows), read.values);
    weights.select(1, f).index_copy_(0, read.rows, solution.weights);
    tail.select(1, f).copy_(solution.tail);
    lengths[f] = length;
    log::info("radial functions of field {}: smoothing {:.3g}{}", f, smoothing,
              options_.kernel == BasisKernel::kGaussian
                  ? fmt::format(", length {:.3g} of half an axis", length)
                  : "");
  }
  set(kBasisWeights, weights);
  set(kBasisTail, tail);
  set(kBasisLengths, lengths);
}

Jet RadialBasis::answer(const Jet& points) {
  const auto scaled = points * factors_;
  const auto& tail = get(kBasisTail);
  const auto linear = scaled.linear([&](const Tensor& x) {
    return torch::matmul(x, tail.slice(0, 1));
  }) + tail[0];
  const auto s = nn::squared_distances(scaled, places() * factors_);
  const auto& weights = get(kBasisWeights);
  if (options_.kernel != BasisKernel::kGaussian) {
    return linear + nn::radial_of(kernel_, s).linear([&](const Tensor& phi) {
      return torch::matmul(phi, weights);
    });
  }
  std::vector<Tensor> fields;
  for (int64_t f = 0; f < domain().fields; ++f) {
    const auto phi = nn::radial_of(kernel_, s * get(kBasisLengths)[f].pow(-2));
    fields.push_back(torch::matmul(phi.rows(), weights.select(1, f)));
  }
  return linear + Jet(torch::stack(fields, -1), points.layout());
}

}  // namespace propagator::models
