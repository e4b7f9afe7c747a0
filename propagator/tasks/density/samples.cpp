#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/tasks/density/density.h"

// What densities learn from.

namespace propagator::tasks {

using data::Split;
using models::as_density;
using torch::Tensor;

namespace {

// Where validation and test begin in the ensemble of a simulator.
constexpr int64_t kValidationBegin = int64_t{1} << 40;
constexpr int64_t kTestBegin = int64_t{1} << 41;

}  // namespace

void DensityTask::draw_target(int64_t seed) {
  const auto draw = [&](Split split, const char* name, int64_t count) {
    const auto x = target_->sample(count, RandomStream(seed, name));
    samples_[split] = {x.to(runtime_.options()),
                       torch::zeros({count, 0}, runtime_.options())};
  };
  draw(Split::kTrain, "data/train", data_options_.samples);
  draw(Split::kValidation, "data/validation", data_options_.validation);
  draw(Split::kTest, "data/test", eval_options_.samples);
}

void DensityTask::draw_pairs(int64_t seed) {
  const auto draw = [&](Split split, int64_t begin, int64_t count) {
    const auto pairs = inference_->draw(seed, begin, count);
    samples_[split] = {
        pairs.unknown.to(runtime_.options()),
        complete(inference_.get(), pairs.observed).to(runtime_.options())};
    if (split == Split::kTest) observed_ = pairs.observed;
  };
  draw(Split::kTrain, 0, data_options_.samples);
  draw(Split::kValidation, kValidationBegin, data_options_.validation);
  draw(Split::kTest, kTestBegin, eval_options_.samples);
}

void DensityTask::read_file(int64_t seed) {
  const auto& d = data_options_;
  auto names = d.variables;
  names.insert(names.end(), d.given.begin(), d.given.end());
  const auto rows = data::read_points(d.file, names);
  const int64_t count = rows.size(0), least = 10 * std::ssize(names);
  if (rows.dim() != 2 || count < least) {
    throw DataError(
        fmt::format("{}: {} rows are too few for {} columns", d.file, count,
                    names.size()),
        fmt::format("at least {} are needed to train, validate and test",
                    least));
  }
  const auto spread = rows.std(0, /*unbiased=*/false);
  for (size_t n = 0; n < names.size(); ++n) {
    if (spread[static_cast<int64_t>(n)].item<double>() > 0) continue;
    throw DataError(
        fmt::format("{}: {} is the same in all rows", d.file, names[n]),
        "leave that column out: it has no distribution to learn");
  }
  expect_support(rows.narrow(1, 0, std::ssize(d.variables)));
  const auto splits = data::make_split(count, seed);
  const auto take = [&](Split split, const std::vector<int64_t>& at) {
    const auto part =
        rows.index_select(0, torch::tensor(at)).to(runtime_.options());
    const auto variables = std::ssize(d.variables);
    samples_[split] = {part.narrow(1, 0, variables),
                       part.narrow(1, variables, std::ssize(d.given))};
  };
  take(Split::kTrain, splits.train);
  take(Split::kValidation, splits.validation);
  take(Split::kTest, splits.test);
}

void DensityTask::expect_support(const Tensor& x) const {
  const auto beyond = ~supports().hold(x);
  const int64_t many = beyond.sum().item<int64_t>();
  if (many == 0) return;
  const auto row = beyond.nonzero()[0].item<int64_t>();
  throw DataError(
      fmt::format("{}: {} rows are where data.supports say that nothing is; "
                  "the first is row {}, [{}]",
                  data_options_.file, many, row + 1,
                  fmt::join(report::numbers(x[row]), ", ")),
      "an edge itself is outside: move it a little, or leave out that support");
}

void DensityTask::prepare(int64_t seed, const Runtime& runtime) {
  runtime_ = runtime;
  seed_ = seed;
  samples_.clear();
  if (target_) {
    draw_target(seed);
  } else if (inference_) {
    draw_pairs(seed);
  } else {
    read_file(seed);
  }
  draw_noise(model_options_->noise_numbers(shape()));
}

void DensityTask::draw_noise(int64_t numbers) {
  for (auto& [split, sample] : samples_) {
    const RandomStream stream(
        seed_, split == Split::kTrain ? "noise/train" : "noise/validation");
    sample.noise =
        stream.uniform({sample.x.size(0), numbers}, 0, 1, torch::kFloat64)
            .to(runtime_.options());
  }
  turn_ = torch::zeros({numbers}, runtime_.options());
}

void DensityTask::begin_step(torch::nn::Module&, int64_t step) {
  std::vector<double> turn(static_cast<size_t>(turn_.size(0)));
  if (turn.empty()) return;
  RandomStream(seed_, "noise/turn").fill(step, 0, turn);
  turn_.copy_(torch::tensor(turn));
}

void DensityTask::calibrate(torch::nn::Module& model) {
  const auto& training = sample(Split::kTrain);
  as_density(model).calibrate(training.x, training.given);
}

const DensityTask::Sample& DensityTask::sample(Split split) const {
  const auto found = samples_.find(split);
  if (found != samples_.end()) return found->second;
  throw UsageError("[density] expected the split train, validation or test");
}

int64_t DensityTask::size(Split split) const { return sample(split).x.size(0); }

train::Loss DensityTask::loss(torch::nn::Module& model, Split split,
                              const Tensor& positions) {
  const auto& [x, given, noise] = sample(split);
  const auto at = positions.to(runtime_.device);
  auto drawn = noise.index_select(0, at);
  if (split == Split::kTrain) drawn = torch::frac(drawn + turn_);
  auto& density = as_density(model);
  const auto mean =
      density.loss(x.index_select(0, at), given.index_select(0, at), drawn)
          .mean();
  return {mean, {{density.loss_name(), 1, mean.detach()}}};
}

}  // namespace propagator::tasks
