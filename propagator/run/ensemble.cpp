#include "propagator/run/ensemble.h"

#include <fmt/format.h>

#include "propagator/core/error.h"
#include "propagator/tasks/generating.h"

namespace propagator::run {
namespace {

// Keys of the data that members must share: what they are asked to forecast.
bool must_agree(const config::Field& field) {
  return field.role == config::Role::kInput ||
         (field.role == config::Role::kData && field.path != "seed" &&
          !field.path.starts_with("data."));
}

void expect_fit(const Run& first, const Run& other) {
  const auto& one = first.experiment();
  const auto& two = other.experiment();
  const auto name = other.directory().path().string();
  if (one.run().task != two.run().task) {
    throw UsageError(
        fmt::format("[ensemble] {} is of the task {}, and the first is of {}",
                    name, two.run().task, one.run().task),
        "members of an ensemble answer the same question");
  }
  for (const auto& field : one.schema().fields()) {
    const auto* there = two.schema().find(field.path);
    if (!must_agree(field) || there == nullptr) continue;
    if (field.get() == there->get()) continue;
    throw UsageError(
        fmt::format("[ensemble] {} has {}={}, and the first has {}", name,
                    field.path, there->get(), field.get()),
        "members of an ensemble are trained for the same fields");
  }
  if (!one.task().draws_test() && one.run().seed != two.run().seed) {
    throw UsageError(
        fmt::format("[ensemble] {} was trained with seed {} on cases of the "
                    "file that the first, of seed {}, is tested on",
                    name, two.run().seed, one.run().seed),
        "the seed divides a file into training and test: members of a file "
        "have one seed and differ in another key");
  }
}

}  // namespace

Ensemble::Ensemble(const Run& first, const std::vector<fs::path>& others,
                   const OpenOptions& options)
    : first_(first), names_{first.experiment().run().name} {
  const auto* task =
      dynamic_cast<const tasks::Combining*>(&first.experiment().task());
  if (task == nullptr) {
    throw UsageError("[ensemble] runs of this task cannot be used together",
                     "runs of the task forecast can");
  }
  std::vector<std::shared_ptr<torch::nn::Module>> models{
      first.model().shared_from_this()};
  for (const auto& folder : others) {
    others_.emplace_back(folder, options);
    expect_fit(first, others_.back());
    names_.push_back(others_.back().experiment().run().name);
    models.push_back(others_.back().model().shared_from_this());
  }
  model_ = task->combine(models);
  model_->eval();
}

Ensemble::~Ensemble() {
  // Each leaves the process as it found it: the last comes first.
  model_.reset();
  while (!others_.empty()) others_.pop_back();
}

TestResult Ensemble::test(data::Split split) const {
  auto result =
      test_model(first_.experiment(), *model_, first_.runtime(), split);
  result.record["members"] = names_;
  return result;
}

}  // namespace propagator::run
