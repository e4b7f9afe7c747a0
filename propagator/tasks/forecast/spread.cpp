#include "propagator/tasks/forecast/spread.h"

#include <torch/utils.h>

#include <limits>

#include "propagator/core/error.h"

namespace propagator::tasks {
namespace {

using models::Forecaster;
using torch::Tensor;

constexpr const char* kScale = "scale";
constexpr const char* kOverall = "overall";
constexpr const char* kModes = "modes";
constexpr const char* kRest = "rest";
// Of one case: those of the next have other random numbers.
constexpr int64_t kMostDraws = int64_t{1} << 32;

Tensor indices(const std::vector<int64_t>& list, const Tensor& where) {
  return torch::tensor(list, torch::kInt64).to(where.device());
}

Tensor per_frame(const Tensor& scale, const Tensor& like) {
  return scale.to(like.options()).view({1, -1, 1, 1});
}

// The mean forecast with the frames that are given in their place.
Tensor mean_of(Forecaster& model, const Tensor& first, const Tensor& alpha) {
  return model.predict(first, alpha).to(first.dtype());
}

// Of the mean over all nodes: modes add up, the rest averages out.
Tensor average_variance(const Tensor& deviation, const ErrorModes& modes) {
  const auto own = modes.to(deviation.options());
  const auto nodes = static_cast<double>(own.rest[0].numel());
  auto variance = (deviation * own.rest).square().sum({2, 3}) / (nodes * nodes);
  for (int64_t k = 0; k < own.count(); ++k) {
    variance = variance + (deviation * own.modes[k]).mean({2, 3}).square();
  }
  return variance;
}

Predictive in_closed_form(Forecaster& model,
                          const std::vector<ErrorModes>& modes,
                          const Tensor& first, const Tensor& alpha) {
  const int64_t visible = model.visible();
  const auto given = [&](models::FrameSpread spread) {
    spread.mean.narrow(1, 0, visible).copy_(first);
    spread.deviation.narrow(1, 0, visible).zero_();
    return spread;
  };
  const auto all = given(model.spread(first, alpha));
  const auto members = model.members();
  std::vector<Tensor> averages, variances;
  for (size_t m = 0; m < members.size(); ++m) {
    const auto own = given(members[m]->spread(first, alpha));
    averages.push_back(own.mean.mean({2, 3}));
    variances.push_back(average_variance(own.deviation, modes[m]));
  }
  const auto average = torch::stack(averages);
  const auto variance = torch::stack(variances).mean(0) +
                        (average - average.mean(0)).square().mean(0);
  const auto nodes = static_cast<double>(all.mean[0][0].numel());
  return {all.mean, all.deviation, variance.sqrt(),
          all.deviation.square().sum({2, 3}).sqrt() / nodes};
}

}  // namespace

NamedTensors Spread::to_tensors() const {
  return {{kScale, scale.cpu()},
          {kOverall, torch::full({1}, overall, torch::kFloat64)},
          {kModes, members.front().modes.cpu()},
          {kRest, members.front().rest.cpu()}};
}

Spread Spread::from_tensors(const NamedTensors& saved,
                            const models::FieldShape& shape) {
  const auto take = [&](const char* name) {
    const auto found = saved.find(name);
    if (found == saved.end()) {
      throw DataError(fmt::format("the calibration has no '{}'", name));
    }
    return found->second;
  };
  const auto scale = take(kScale), overall = take(kOverall),
             modes = take(kModes), rest = take(kRest);
  const std::vector<int64_t> nodes{shape.frames, shape.rows, shape.cols};
  auto sizes = modes.sizes().vec();
  if (!sizes.empty()) sizes.erase(sizes.begin());
  if (rest.sizes().vec() != nodes || sizes != nodes || scale.dim() != 1 ||
      scale.size(0) != shape.frames || overall.numel() != 1) {
    throw DataError("the calibration is not of this run's fields");
  }
  for (const auto& some : {scale, overall, modes, rest}) {
    if (!torch::isfinite(some).all().item<bool>()) {
      throw DataError("the calibration is not finite");
    }
  }
  return {scale, overall.item<double>(), {{modes, rest}}};
}

Tensor draw_raw(Forecaster& model, const std::vector<ErrorModes>& modes,
                const Tensor& first, const Tensor& alpha,
                const DrawOptions& options,
                const std::function<void(int64_t)>& progress) {
  const auto members = model.members();
  const int64_t cases = first.size(0), draws = options.draws;
  Tensor all;
  int64_t done = 0;
  for (size_t m = 0; m < members.size(); ++m) {
    std::vector<int64_t> mine;  // of all trajectories
    for (int64_t n = 0; n < cases * draws; ++n) {
      const auto member = static_cast<size_t>(n % draws) % members.size();
      if (member == m) mine.push_back(n);
    }
    const auto own = modes[m].to(first.options());
    for (size_t begin = 0; begin < mine.size();
         begin += static_cast<size_t>(options.batch)) {
      const auto end =
          std::min(mine.size(), begin + static_cast<size_t>(options.batch));
      std::vector<int64_t> places(mine.begin() + static_cast<int64_t>(begin),
                                  mine.begin() + static_cast<int64_t>(end));
      std::vector<int64_t> owners, rows;
      for (const int64_t n : places) {
        owners.push_back(n / draws);
        rows.push_back((options.first_case + n / draws) * kMostDraws +
                       n % draws);
      }
      const auto of = indices(owners, first);
      const auto count = static_cast<int64_t>(places.size());
      const auto drawn =
          members[m]->draw(first.index_select(0, of), alpha.index_select(0, of),
                           mode_noise(own, options.stream, std::move(rows)),
                           [&](int64_t frames) {
                             if (progress) progress(done + frames * count);
                           });
      done += drawn.size(1) * count;
      if (!all.defined()) {
        auto shape = drawn.sizes().vec();
        shape[0] = cases * draws;
        all = torch::empty(shape, drawn.options());
      }
      all.index_copy_(0, indices(places, first), drawn);
    }
  }
  auto shape = all.sizes().vec();
  shape[0] = draws;
  shape.insert(shape.begin(), cases);
  return all.view(shape);
}

Tensor draw_trajectories(Forecaster& model, const Spread& spread,
                         const Tensor& first, const Tensor& alpha,
                         const DrawOptions& options,
                         const std::function<void(int64_t)>& progress) {
  const torch::NoGradGuard no_grad;
  const auto raw =
      draw_raw(model, spread.members, first, alpha, options, progress);
  const auto mean = mean_of(model, first, alpha).unsqueeze(1);
  const auto scale = per_frame(spread.scale, mean).unsqueeze(1);
  return mean + scale * (raw - mean);
}

Predictive predictive(Forecaster& model, const std::vector<ErrorModes>& modes,
                      const Tensor& first, const Tensor& alpha,
                      const DrawOptions& options) {
  const torch::NoGradGuard no_grad;
  if (!model.autoregressive()) {
    return in_closed_form(model, modes, first, alpha);
  }
  const auto mean = mean_of(model, first, alpha);
  const auto off =
      draw_raw(model, modes, first, alpha, options) - mean.unsqueeze(1);
  return {mean,
          off.square().mean(1).sqrt(),
          off.mean({3, 4}).square().mean(1).sqrt(),
          {}};
}

Tensor standardised_errors(Forecaster& member, const data::PlateBatch& batch) {
  const torch::NoGradGuard no_grad;
  const int64_t visible = member.visible();
  const auto& truth = batch.frames;
  const auto given =
      member.autoregressive() ? truth : truth.narrow(1, 0, visible);
  const auto [mean, deviation] = member.spread(given, batch.alpha);
  const auto safe = deviation.clamp_min(std::numeric_limits<float>::min());
  auto z = torch::where(deviation > 0, (truth - mean) / safe,
                        torch::zeros_like(deviation));
  z.narrow(1, 0, visible).zero_();
  return z;
}

}  // namespace propagator::tasks
