#include "propagator/tasks/density/density.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"

namespace propagator::tasks {

using data::Split;
using models::as_density;
using torch::Tensor;

void DensityDataOptions::describe(config::Schema& s) {
  s.field("file", file,
          {.help = "a table, .csv, .h5, .npz or .mat, whose rows are samples; "
                   "beside the configuration",
           .file = true});
  s.field("variables", variables,
          {.help = "columns of the table whose distribution is learned"});
  s.field("given", given,
          {.help = "columns that are given: the distribution is learned for "
                   "each value of theirs"});
  s.field("samples", samples,
          {.help = "how many samples of a target to train on", .min = 1});
  s.field("validation", validation,
          {.help = "how many samples of a target validation uses", .min = 1});
}

void DensityEvalOptions::describe(config::Schema& s) {
  s.field("samples", samples,
          {.help = "how many samples of a target are tested", .min = 1});
  s.field("batch", batch,
          {.help = "samples of one forward pass in a test",
           .min = 1,
           .memory = true});
}

DensityTask::DensityTask(std::unique_ptr<models::DensityOptions> model)
    : model_options_(std::move(model)) {}

void DensityTask::describe(config::Schema& s) {
  using enum config::Role;
  s.section("target", target_options_);
  s.section("data", data_options_);
  s.field("model.name", model_name_,
          {.help = "name of the model; `propagator list` shows the names",
           .role = kModel});
  s.section("model", *model_options_, kModel);
  s.section("eval", eval_options_, kEvaluation);
}

std::map<std::string, std::string> DensityTask::defaults() const {
  return {{"train.batch", "500"},
          {"train.epochs", "40"},
          {"optimizer.kind", "adam"},
          {"schedule.kind", "cosine"},
          {"schedule.lr", "0.003"}};
}

void DensityTask::validate() {
  const auto& d = data_options_;
  const bool has_target = target_options_.name != TargetName::kNone;
  if (has_target && !d.file.empty()) {
    throw ConfigError("data.file", "there is a target to learn from already",
                      "leave out data.file, or set target.name=none");
  }
  if (!d.file.empty()) {
    if (d.variables.empty()) {
      throw ConfigError("data.variables", "which columns are learned?",
                        "name some of the file's, as data.variables=[x, y]");
    }
    data::expect_table(d.file);
    auto all = d.variables;
    all.insert(all.end(), d.given.begin(), d.given.end());
    for (const auto& name : all) {
      if (std::ranges::count(all, name) > 1) {
        throw ConfigError("data.variables",
                          fmt::format("{} stands there twice", name));
      }
    }
  } else {
    target_.emplace(target_options_);
  }
  model_options_->validate(shape());
}

std::vector<config::UnusedOption> DensityTask::unused_options() const {
  const bool has_file = !data_options_.file.empty();
  std::vector<config::UnusedOption> unused;
  const auto add = [&](const char* key, const char* why) {
    unused.push_back({key, why});
  };
  if (has_file) {
    for (const char* key :
         {"data.samples", "data.validation", "eval.samples"}) {
      add(key, "a file has as many rows as it has");
    }
  } else {
    for (const char* key : {"data.variables", "data.given"}) {
      add(key, "a target has variables of its own");
    }
  }
  if (target_options_.name != TargetName::kChain) {
    add("target.variables", "only a chain has any number of them");
  }
  return unused;
}

std::vector<std::string> DensityTask::inspect() {
  const auto names = fmt::format("{}", fmt::join(shape().names, ", "));
  if (!target_) {
    return {data_options_.given.empty()
                ? fmt::format("the distribution of {}", names)
                : fmt::format("the distribution of {} given {}", names,
                              fmt::join(data_options_.given, ", "))};
  }
  return {fmt::format("the distribution of {}, of entropy {:.4f} nats", names,
                      target_->entropy())};
}

models::DensityShape DensityTask::shape() const {
  const auto names = target_ ? target_->names() : data_options_.variables;
  return {std::ssize(names), std::ssize(data_options_.given), names};
}

std::shared_ptr<torch::nn::Module> DensityTask::make_model() const {
  return model_options_->make(shape());
}

void DensityTask::initialise(torch::nn::Module& model, int64_t seed) const {
  as_density(model).initialise(seed);
}

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

void DensityTask::prepare(int64_t seed, const Runtime& runtime) {
  runtime_ = runtime;
  seed_ = seed;
  samples_.clear();
  if (target_) {
    draw_target(seed);
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

TaskKind density_kind() {
  return {
      .help = "given samples, what is their distribution?",
      .make =
          [](const config::Document& document) {
            return std::make_unique<DensityTask>(
                find_kind(models::densities(), document, "model.name", kDensity)
                    .options());
          },
      .models = helps_of(models::densities()),
      .files =
          "INPUT has a row for each sample and a column for each variable "
          "and each that is given;\nOUTPUT gets `log_density` (nats).\n  "
          "propagator predict runs/lecture --input samples.csv --output "
          "densities.csv"};
}

}  // namespace propagator::tasks
