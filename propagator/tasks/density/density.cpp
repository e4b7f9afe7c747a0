#include "propagator/tasks/density/density.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"

namespace propagator::tasks {

using models::as_density;

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
  s.field("supports", supports,
          {.help = "where variables can be: x > 0, x < 5, 0 < x < 1, or x mod "
                   "360 on a circle; others can be anywhere"});
  s.field(
      "samples", samples,
      {.help =
           "how many samples of a target, or pairs of a simulator, to train on",
       .min = 1});
  s.field("validation", validation,
          {.help = "how many of them validation uses", .min = 1});
}

void DensityEvalOptions::describe(config::Schema& s) {
  s.field("samples", samples,
          {.help = "how many samples of a target, or pairs of a simulator, are "
                   "tested",
           .min = 1});
  s.field("draws", draws,
          {.help = "samples of each distribution that say how often the truth "
                   "is where it is likely, if something is given; 0: no such "
                   "test",
           .min = 0});
  s.field("two_sample", two_sample,
          {.help = "test samples that a network tries to tell from new ones; "
                   "0: no such test",
           .min = 0});
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
  s.section("inference", inference_options_);
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
  const bool has_file = !d.file.empty();
  const bool has_target = target_options_.name != TargetName::kNone;
  inference_ = inference_options_.make();
  if (has_target + has_file + (inference_ != nullptr) > 1) {
    throw ConfigError(has_file ? "data.file" : "inference.name",
                      "there is something else to learn from already",
                      "keep one of target.name, inference.name and data.file");
  }
  if (has_file) {
    validate_columns();
  } else if (!inference_) {
    target_.emplace(target_options_);
  }
  model_options_->validate(shape());
}

void DensityTask::validate_columns() const {
  const auto& d = data_options_;
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
    for (const char* key : {"data.variables", "data.given", "data.supports"}) {
      add(key, "only a file has columns to choose from");
    }
  }
  if (inference_options_.name != InferenceName::kPlate) {
    add("inference.plate.", "inference.name is not plate");
  }
  if (inference_options_.name != InferenceName::kWake) {
    add("inference.wake.", "inference.name is not wake");
  }
  if (shape().given == 0) add("eval.draws", "nothing is given");
  if (target_options_.name != TargetName::kChain) {
    add("target.variables", "only a chain has any number of them");
  }
  return unused;
}

std::vector<std::string> DensityTask::inspect() {
  if (inference_) {
    std::vector<std::string> lines{inference_->describe()};
    for (const auto& file : simulated_files()) {
      if (std::filesystem::exists(file.path)) continue;
      lines.push_back(fmt::format("{} is not there yet: {} computes it first",
                                  file.path, file.simulator));
    }
    return lines;
  }
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

std::vector<SimulatedFile> DensityTask::simulated_files() const {
  if (inference_options_.name != InferenceName::kWake) return {};
  const auto& wake = inference_options_.wake;
  return {{wake.file, "wake-cycles", wake.simulation}};
}

std::vector<std::string> DensityTask::given_columns() const {
  return inference_ ? inference_->observed() : data_options_.given;
}

models::DensityShape DensityTask::shape() const {
  const auto given = std::ssize(given_columns());
  if (inference_) {
    const auto names = inference_->unknowns();
    const auto unknowns = std::ssize(names);
    return {.variables = unknowns,
            .given = unknowns + inference_->summary_numbers(),
            .names = names,
            .centred = true,
            .supports = inference_->supports()};
  }
  const auto names = target_ ? target_->names() : data_options_.variables;
  return {.variables = std::ssize(names),
          .given = given,
          .names = names,
          .supports = target_ ? nn::Supports() : supports()};
}

nn::Supports DensityTask::supports() const {
  const auto& names = data_options_.variables;
  std::vector<nn::Support> all(names.size());
  for (const auto& text : data_options_.supports) {
    try {
      const auto [name, support] = nn::parse_support(text);
      const auto at = std::ranges::find(names, name) - names.begin();
      if (at == std::ssize(names)) {
        throw std::invalid_argument(
            fmt::format("'{}': {} is none of the variables", text, name));
      }
      auto& place = all[static_cast<size_t>(at)];
      if (place.kind != nn::Support::Kind::kLine) {
        throw std::invalid_argument(
            fmt::format("'{}': {} has a support already", text, name));
      }
      place = support;
    } catch (const std::invalid_argument& e) {
      throw ConfigError("data.supports", e.what());
    }
  }
  return nn::Supports(std::move(all));
}

std::shared_ptr<torch::nn::Module> DensityTask::make_model() const {
  return model_options_->make(shape());
}

void DensityTask::initialise(torch::nn::Module& model, int64_t seed) const {
  as_density(model).initialise(seed);
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
