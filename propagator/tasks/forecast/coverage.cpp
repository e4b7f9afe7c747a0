#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/progress.h"
#include "propagator/tasks/calibration.h"
#include "propagator/tasks/forecast/forecast.h"

// Predicted deviations: what validation cases say of them, and the test.

namespace propagator::tasks {
namespace {

using models::Forecaster;
using nlohmann::json;
using torch::Tensor;

// As many numbers of validation cases are kept at once: 512 MB in float32.
constexpr int64_t kMostNumbers = int64_t{1} << 27;
constexpr int64_t kMostCases = 256;
constexpr int64_t kFewestCases = 8;

// The interval that the scale makes right on validation cases.
constexpr double kFitted = 0.9;
constexpr std::pair<const char*, double> kIntervals[] = {
    {"50", 0.5}, {"90", kFitted}, {"95", 0.95}};

// The factor that takes the interval to the share of |z| that it is to hold.
double fitted_scale(const Tensor& z) {
  const auto values = z.abs().masked_select(z != 0);
  if (values.numel() == 0) return 1;
  const auto place = static_cast<int64_t>(
      std::ceil(kFitted * static_cast<double>(values.numel())));
  return std::get<0>(values.kthvalue(place)).item<double>() /
         normal_reach(kFitted);
}

// Shares by frame, and over all frames that are counted.
class Coverage {
 public:
  Coverage(Tensor scale, int64_t visible)
      : scale_(std::move(scale)), visible_(visible) {}

  void add(const Tensor& truth, const Predictive& said) {
    const auto hidden = [&](const Tensor& x) {
      return x.slice(1, visible_).to(torch::kFloat64);
    };
    const auto error = hidden(truth) - hidden(said.mean);
    const auto scale =
        scale_.slice(0, visible_).to(error.options()).view({1, -1, 1, 1});
    const auto raw = hidden(said.deviation);
    const auto open = (raw > 0).to(torch::kFloat64);
    const auto per_frame = [](const Tensor& x) {
      return x.sum({0, 2, 3}).cpu();
    };
    const auto deviation = raw * scale;
    const auto within = [&](const Tensor& limit) {
      return per_frame((error.abs() <= limit).to(torch::kFloat64) * open);
    };
    for (const auto& [name, share] : kIntervals) {
      const double reach = normal_reach(share);
      grow(inside_[name], within(reach * deviation));
      grow(before_[name], within(reach * raw));
      const auto average = error.mean({2, 3}).abs();  // (B, T)
      const auto inside = [&](const Tensor& one) {
        const auto limit = reach * hidden(one) * scale.squeeze(3).squeeze(2);
        return (average <= limit).to(torch::kFloat64).sum(0).cpu();
      };
      grow(average_[name], inside(said.average));
      if (said.independent.defined()) {
        grow(independent_[name], inside(said.independent));
      }
    }
    grow(counted_, per_frame(open));
    const double count = open.sum().item<double>();
    nll_ += normal_nll(error, deviation).item<double>() * count;
    nll_before_ += normal_nll(error, raw).item<double>() * count;
    grow(variance_, per_frame(deviation.square()));
    cases_ += truth.size(0);
  }

  json numbers() const {
    json all{{"first_frame", visible_},
             {"cases", cases_},
             {"scale_per_frame", report::numbers(scale_.slice(0, visible_))}};
    const double total = counted_.sum().item<double>();
    const auto frames = static_cast<double>(cases_ * counted_.size(0));
    for (const auto& [name, unused] : kIntervals) {
      all["coverage"][name] = share(inside_.at(name), total);
      all["coverage_uncalibrated"][name] = share(before_.at(name), total);
      all["coverage_per_frame"][name] =
          report::numbers(inside_.at(name) / counted_.clamp_min(1));
      all["coverage_of_mean"][name] = share(average_.at(name), frames);
      if (independent_.contains(name)) {
        all["coverage_of_mean_independent"][name] =
            share(independent_.at(name), frames);
      }
    }
    all["coverage_per_frame_uncalibrated"]["90"] =
        report::numbers(before_.at("90") / counted_.clamp_min(1));
    all["nll"] = nll_ / std::max(total, 1.0);
    all["nll_uncalibrated"] = nll_before_ / std::max(total, 1.0);
    all["deviation_per_frame"] =
        report::numbers((variance_ / counted_.clamp_min(1)).sqrt());
    return all;
  }

 private:
  static void grow(Tensor& sum, const Tensor& more) {
    sum = sum.defined() ? sum + more : more;
  }
  static double share(const Tensor& inside, double of) {
    return inside.sum().item<double>() / std::max(of, 1.0);
  }

  Tensor scale_;
  int64_t visible_, cases_ = 0;
  std::map<std::string, Tensor> inside_, before_, average_, independent_;
  Tensor counted_, variance_;  // (hidden T)
  double nll_ = 0, nll_before_ = 0;
};

}  // namespace

DrawOptions Forecast::draw_options(int64_t first_case) const {
  return {.draws = eval_options_.draws,
          .batch = std::max(eval_options_.batch, eval_options_.draws),
          .stream = RandomStream(0, "spread"),
          .first_case = first_case};
}

int64_t Forecast::spread_cases(data::Split split, bool autoregressive) const {
  int64_t cases = data_->size(split);
  if (eval_options_.cases > 0) cases = std::min(cases, eval_options_.cases);
  if (autoregressive && eval_options_.drawn_cases > 0) {
    cases = std::min(cases, eval_options_.drawn_cases);
  }
  return cases;
}

NamedTensors Forecast::measure_calibration(torch::nn::Module& model) {
  if (!predicts_variance()) return {};
  model.eval();
  spread_ = measure_spread(models::as_forecaster(model));
  return spread_->to_tensors();
}

void Forecast::use_calibration(const NamedTensors& measured) {
  spread_ = Spread::from_tensors(measured, shape());
}

Spread Forecast::spread_of(Forecaster& model) {
  const bool own = model.members().size() == 1;
  auto spread = own && spread_ ? *spread_ : measure_spread(model);
  spread.scale = chosen_scale(spread, model.visible());
  return spread;
}

Tensor Forecast::chosen_scale(const Spread& spread, int64_t visible) const {
  if (eval_options_.calibration == SpreadScale::kFrame) return spread.scale;
  auto scale = torch::ones({plate_.frames}, torch::kFloat64);
  if (eval_options_.calibration == SpreadScale::kOverall) {
    scale.slice(0, visible).fill_(spread.overall);
  }
  return scale;
}

Spread Forecast::measure_spread(Forecaster& model) {
  if (!data_) {
    throw UsageError("[forecast] these weights were not calibrated yet",
                     "prepare the run's data first");
  }
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime_);
  const auto members = model.members();
  const int64_t each = plate_.frames * plate_.rows * plate_.cols;
  const int64_t cases =
      std::min({data_->size(data::Split::kValidation), kMostCases,
                std::max(kFewestCases, kMostNumbers / each)});
  Progress progress("calibrating",
                    cases * static_cast<int64_t>(members.size()));
  Spread spread;
  int64_t done = 0;
  for (auto* member : members) {
    std::vector<Tensor> parts;
    for (int64_t n = 0; n < cases; n += eval_options_.batch) {
      const int64_t count = std::min(eval_options_.batch, cases - n);
      const auto batch = data_->range(data::Split::kValidation, n, count);
      parts.push_back(
          standardised_errors(*member, batch).to(torch::kFloat32).cpu());
      progress.update(done += count);
    }
    const auto z = torch::cat(parts);
    parts.clear();
    // What is fed back must have its size; else the scale gives it.
    auto size = torch::ones({plate_.frames}, torch::kFloat32);
    for (int64_t t = 0; model.autoregressive() && t < plate_.frames; ++t) {
      size[t] = fitted_scale(z.select(1, t));
    }
    spread.members.push_back(unit_modes(z).scaled(size));
  }
  measure_scale(model, spread);
  return spread;
}

void Forecast::measure_scale(Forecaster& model, Spread& spread) {
  const int64_t each = plate_.frames * plate_.rows * plate_.cols;
  const int64_t cases =
      std::min({spread_cases(data::Split::kValidation, model.autoregressive()),
                kMostCases, std::max(kFewestCases, kMostNumbers / each)});
  const int64_t visible = model.visible();
  std::vector<Tensor> parts;
  Progress progress("scaling", cases);
  const int64_t step =
      model.autoregressive()
          ? std::max<int64_t>(1, eval_options_.batch / eval_options_.draws)
          : eval_options_.batch;
  for (int64_t n = 0; n < cases; n += step) {
    const int64_t count = std::min(step, cases - n);
    const auto batch = data_->range(data::Split::kValidation, n, count);
    const auto said =
        predictive(model, spread.members, batch.frames.narrow(1, 0, visible),
                   batch.alpha, draw_options(n));
    const auto safe = said.deviation.clamp_min(1e-30);
    parts.push_back(torch::where(said.deviation > 0,
                                 (batch.frames - said.mean) / safe,
                                 torch::zeros_like(safe))
                        .to(torch::kFloat32)
                        .cpu());
    progress.update(n + count);
  }
  const auto z = torch::cat(parts).slice(1, visible);
  spread.overall = fitted_scale(z);
  spread.scale = torch::ones({plate_.frames}, torch::kFloat64);
  for (int64_t t = 0; t < z.size(1); ++t) {
    spread.scale[visible + t] = fitted_scale(z.select(1, t));
  }
}

json Forecast::measure_coverage(Forecaster& model, data::Split split) {
  const auto spread = spread_of(model);
  const int64_t visible = model.visible();
  const int64_t cases = spread_cases(split, model.autoregressive());
  Coverage coverage(spread.scale, visible);
  const int64_t step =
      model.autoregressive()
          ? std::max<int64_t>(1, eval_options_.batch / eval_options_.draws)
          : eval_options_.batch;
  Progress progress("spread", cases);
  for (int64_t n = 0; n < cases; n += step) {
    const int64_t count = std::min(step, cases - n);
    const auto batch = data_->range(split, n, count);
    coverage.add(batch.frames, predictive(model, spread.members,
                                          batch.frames.narrow(1, 0, visible),
                                          batch.alpha, draw_options(n)));
    progress.update(n + count);
  }
  auto numbers = coverage.numbers();
  numbers["calibration"] = config::name_of(eval_options_.calibration);
  numbers["members"] = spread.members.size();
  for (const auto& modes : spread.members) {
    numbers["error_modes"].push_back(modes.count());
  }
  if (model.autoregressive()) numbers["draws"] = eval_options_.draws;
  return numbers;
}

}  // namespace propagator::tasks
