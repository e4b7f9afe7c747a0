#include <torch/utils.h>

#include <cmath>

#include "propagator/autodiff/parameter_gradients.h"
#include "propagator/core/error.h"
#include "propagator/tasks/reconstruct/laplace.h"
#include "propagator/tasks/reconstruct/reconstruct.h"
#include "propagator/train/flat_parameters.h"

// Parameters of the equations that readings tell.

namespace propagator::tasks {
namespace {

using nlohmann::json;
using torch::Tensor;

constexpr int64_t kMostIterations = 200;
// A Jacobian of more numbers, in float64, would only take memory.
constexpr int64_t kMostParameters = 5000;
constexpr int64_t kMostNumbers = 60'000'000;
// Readings determine a parameter if its interval is at most a factor of 10 to
// either side, or this share of its bounds.
constexpr double kLargestReach = 2.302585092994046;
constexpr double kLargestShare = 0.9;
// So near to an end of its bounds one is at that end.
constexpr double kAtEnd = 0.01;

// The trained parameters of a model in one vector, and back.
struct Trained {
  std::vector<Tensor> all;
  int64_t sought = 0;  // where the unknowns begin

  explicit Trained(torch::nn::Module& model) {
    int64_t size = 0;
    for (const auto& item : model.named_parameters()) {
      if (!item.value().requires_grad()) continue;
      if (item.key().ends_with("sought")) sought = size;
      all.push_back(item.value());
      size += item.value().numel();
    }
  }
  Tensor flat() const {
    std::vector<Tensor> parts;
    for (const auto& one : all) parts.push_back(one.detach().flatten());
    return torch::cat(parts);
  }
  void set(const Tensor& values) const {
    const torch::NoGradGuard no_grad;
    int64_t from = 0;
    for (const auto& one : all) {
      one.detach().copy_(values.narrow(0, from, one.numel()).view(one.sizes()));
      from += one.numel();
    }
  }
};

// The trained parameters of a model as views of one buffer, while it lives: a
// trainer may have them in one of its own.
class OneBuffer {
 public:
  explicit OneBuffer(torch::nn::Module& model) {
    for (const auto& item : model.named_parameters()) {
      if (!item.value().requires_grad()) continue;
      before_.push_back(
          {item.value(), item.value().detach(), item.value().grad()});
    }
    buffer_.emplace(model);
  }
  ~OneBuffer() {
    for (auto& [parameter, data, gradient] : before_) {
      parameter.set_data(data);
      parameter.mutable_grad() = gradient;
    }
  }
  OneBuffer(const OneBuffer&) = delete;
  OneBuffer& operator=(const OneBuffer&) = delete;

  const Tensor& values() { return buffer_->values(); }
  int64_t place_of_sought() const {
    for (const auto& segment : buffer_->segments()) {
      if (segment.name.ends_with("sought")) return segment.offset;
    }
    return buffer_->segments().back().offset;
  }

 private:
  struct Before {
    Tensor parameter, data, gradient;
  };
  std::vector<Before> before_;
  std::optional<train::FlatParameters> buffer_;
};

// Those that are sought, as the model has them before their maps.
Tensor sought_of(torch::nn::Module& model) {
  for (const auto& item : model.named_parameters()) {
    if (item.key().ends_with("sought")) {
      return item.value().detach().to(torch::kCPU, torch::kFloat64);
    }
  }
  return torch::zeros({0}, torch::kFloat64);
}

double share_below(double z) { return 1 / (1 + std::exp(-z)); }

// JSON has no infinite numbers.
json number_or_null(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

// The interval of one that is sought at z and has this reach to either side.
json interval_of(const pde::Unknown& unknown, double z, double reach) {
  json one;
  const auto at = [&](double place) {
    if (unknown.bounds) return pde::SoughtRange(*unknown.bounds).at(place);
    return unknown.start == 0 ? place : unknown.start * std::exp(place);
  };
  const double ends[] = {at(z - reach), at(z + reach)};
  one["interval_95"] = {number_or_null(std::min(ends[0], ends[1])),
                        number_or_null(std::max(ends[0], ends[1]))};
  bool determined = std::isfinite(reach);
  if (unknown.bounds) {
    determined =
        share_below(z + reach) - share_below(z - reach) <= kLargestShare;
    one["bounds"] = {unknown.bounds->low, unknown.bounds->high};
    one["at_bound"] = share_below(z) < kAtEnd || share_below(z) > 1 - kAtEnd;
  } else if (unknown.start != 0) {
    determined = reach <= kLargestReach;
  }
  one["determined"] = determined;
  return one;
}

}  // namespace

void Reconstruct::validate_unknowns(bool drawn) const {
  if (model_options_->is_fitted() && !problem_->functions.empty()) {
    throw ConfigError("problem.unknown",
                      fmt::format("{} is trained, and this model is not",
                                  problem_->text(problem_->functions.front())),
                      "choose another model, as model.name=pinn");
  }
  if (!truth_options_.file.empty() && !problem_->functions.empty()) {
    throw ConfigError("truth.file",
                      "a truth on a grid has no functions that are sought",
                      "give readings with sensors.file, or the true function "
                      "in problem.exact");
  }
  if (!drawn || !problem_->exact.empty()) return;
  for (size_t k = 0; k < problem_->unknowns.size(); ++k) {
    const auto& name = problem_->unknowns[k].name;
    if (problem_->unknowns[k].truth) continue;
    throw ConfigError(
        "problem.unknown",
        fmt::format("readings cannot be drawn while {} is unknown", name),
        fmt::format("give readings with sensors.file, or the true {} among "
                    "problem.parameters",
                    name),
        static_cast<int64_t>(k));
  }
  for (const auto& function : problem_->functions) {
    if (function.truth) continue;
    const auto name = problem_->text(function);
    throw ConfigError(
        "problem.unknown",
        fmt::format("readings cannot be drawn while {} is unknown", name),
        fmt::format("give readings with sensors.file, or the true {} in "
                    "problem.exact",
                    name));
  }
}

void Reconstruct::expect_enough_readings() const {
  const auto sought = std::ssize(problem_->unknowns);
  const auto readings =
      torch::isfinite(sensors_.training.readings).sum().item<int64_t>();
  if (readings >= sought) return;
  throw DataError(
      fmt::format("{} readings cannot tell {} unknown parameters", readings,
                  sought),
      "give more readings, or leave parameters out of problem.unknown");
}

std::optional<Posterior> Reconstruct::posterior_of(models::FieldNet& model) {
  if (predicts_variance() || model_options_->is_fitted()) return std::nullopt;
  OneBuffer parameters(model);
  const int64_t count = parameters.values().numel();
  if (count > kMostParameters) return std::nullopt;
  train::LeastSquares all;
  try {
    const int64_t residuals = least_squares(model, nullptr).residuals.numel();
    if (count * residuals > kMostNumbers) return std::nullopt;
    all = least_squares(model, &parameters.values());
  } catch (const ConfigError&) {
    return std::nullopt;  // no Jacobian of such a model, or loss
  }
  return tasks::posterior_of(all.jacobian, parameters.place_of_sought(),
                             std::ssize(problem_->unknowns),
                             training_.known.numel());
}

// Errors at the sensors held out are those of noise and field; those that
// trained have `used` fewer numbers to show it.
double Reconstruct::noise_of(models::FieldNet& model, double used) const {
  const torch::NoGradGuard no_grad;
  double squares = 0, readings = -used;
  for (const auto* some : {&training_, &held_out_}) {
    if (some == &held_out_ && sensors_.held_out.count() == 0) continue;
    const auto error = misfit_of(model, *some).error.to(torch::kFloat64);
    squares += error.square().sum().item<double>();
    readings += some->known.sum().item<double>();
  }
  return std::sqrt(squares / std::max(1.0, readings));
}

// With many readings the posterior of weights and unknowns is near a normal
// one, whose covariance is the inverse Hessian of the negative log-likelihood:
// M / (2 σ² λ) times the loss, M readings with weight λ in it and noise σ, as
// the sensors held out show it.
double Reconstruct::deviation_of(models::FieldNet& model, int64_t unknown,
                                 json& said) {
  const torch::AutoGradMode on(true);
  const Trained trained(model);
  const auto at = trained.flat();
  const auto everywhere = torch::arange(size(data::Split::kTrain));
  const auto gradient = [&](const Tensor& values) {
    trained.set(values);
    const auto total = loss(model, data::Split::kTrain, everywhere).total;
    auto parts = autodiff::parameter_gradients(total, trained.all);
    for (auto& part : parts) part = part.flatten();
    return torch::cat(parts);
  };
  const auto entry = inverse_hessian_entry(
      gradient, at, trained.sought + unknown, kMostIterations);
  trained.set(at);
  double noise = 1;  // a likelihood has its own
  if (reading_loss_.kind != ReadingLoss::kHeteroscedastic) {
    const torch::NoGradGuard no_grad;
    const auto misfit = misfit_of(model, held_out_);
    noise =
        ((misfit.error.square().sum() / held_out_.known.sum())).item<double>();
  }
  const double readings = training_.known.sum().item<double>();
  said["iterations"] = entry.iterations;
  said["settled"] = entry.settled;
  return std::sqrt(2 * noise * reading_loss_.weight / readings * entry.value);
}

json Reconstruct::unknowns_of(models::FieldNet& model) {
  json all = json::object();
  const auto values = model.unknowns().detach().to(torch::kFloat64).cpu();
  const auto sought = sought_of(model);
  const auto posterior = posterior_of(model);
  double unit = 0;
  if (posterior) {
    unit =
        noise_of(model, posterior->used) *
        std::sqrt(reading_loss_.weight / training_.known.sum().item<double>());
  }
  for (int64_t k = 0; k < std::ssize(problem_->unknowns); ++k) {
    const auto& unknown = problem_->unknowns[static_cast<size_t>(k)];
    const double value = values[k].item<double>();
    json one{{"value", value}, {"start", unknown.start}, {"settled", true}};
    one["method"] = posterior ? "jacobian" : "conjugate gradients";
    const double deviation =
        posterior ? unit * posterior->deviations[k].item<double>()
                  : deviation_of(model, k, one);
    one.update(
        interval_of(unknown, sought[k].item<double>(), kReach95 * deviation));
    if (unknown.truth) {
      one["truth"] = *unknown.truth;
      one["relative_error"] =
          std::abs(value - *unknown.truth) / std::abs(*unknown.truth);
    }
    all[unknown.name] = std::move(one);
  }
  return all;
}

}  // namespace propagator::tasks
