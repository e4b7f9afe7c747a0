#include "propagator/train/train_options.h"

#include <algorithm>

namespace propagator::train {
namespace {

// The section `train`; the others describe themselves.
struct TrainSection {
  TrainOptions& o;

  void describe(config::Schema& s) {
    describe_length(s);
    describe_rhythm(s);
  }

 private:
  // How long, and in which batches.
  void describe_length(config::Schema& s) {
    s.field("epochs", o.epochs,
            {.help = "passes over the training cases", .min = 1});
    s.field("max_steps", o.max_steps,
            {.help = "steps after which training ends, whatever the epochs; "
                     "0 lets the epochs decide",
             .min = 0});
    s.field("batch", o.batch,
            {.help = "cases of one forward and backward pass; 0 takes all",
             .min = 0,
             .memory = true});
    s.field("accumulate", o.accumulate,
            {.help = "batches whose gradients make one step", .min = 1});
    s.field("slices", o.slices,
            {.help = "slices of a batch, whose gradients are computed one by "
                     "one and added in a fixed order, so that ranks (mpirun) "
                     "can share them: at least as many as there are ranks",
             .min = 1,
             .max = 65536,
             .later = true});
    s.field("clip", o.clip,
            {.help = "largest norm of a gradient, which longer ones are "
                     "scaled down to; 0 sets no limit",
             .min = 0});
  }
  // What happens how often beside the steps.
  void describe_rhythm(config::Schema& s) {
    s.field("validate_every", o.validate_every,
            {.help = "steps between validations; 0 validates once an epoch",
             .unit = "steps",
             .min = 0});
    s.field("validate_cases", o.validate_cases,
            {.help = "how many cases of the validation split are used; 0 "
                     "uses all",
             .min = 0});
    s.field("patience", o.patience,
            {.help = "validations without gain after which training ends; 0 "
                     "never ends it so",
             .min = 0});
    s.field("checkpoint_every", o.checkpoint_every,
            {.help = "steps between checkpoints; 0 writes one at each "
                     "validation that finds the last one written",
             .unit = "steps",
             .min = 0});
    s.field("checkpoint_minutes", o.checkpoint_minutes,
            {.help = "longest time between two checkpoints",
             .unit = "min",
             .min = 0.01});
    s.field("keep_checkpoints", o.keep_checkpoints,
            {.help = "how many checkpoints are kept; older ones are removed",
             .min = 1});
    s.field("log_every", o.log_every,
            {.help = "steps between lines of metrics.jsonl",
             .unit = "steps",
             .min = 1});
    s.field("time_limit", o.time_limit,
            {.help = "time after which training writes a checkpoint and "
                     "stops; 0 sets no limit",
             .unit = "s",
             .min = 0,
             .role = config::Role::kPlace});
    s.field("budget", o.budget,
            {.help = "time of training after which it has ended, as after its "
                     "last step, and is tested; what a resumed run took "
                     "before counts. 0 lets the steps decide",
             .unit = "s",
             .min = 0,
             .later = true});
  }
};

}  // namespace

void TrainOptions::describe(config::Schema& s) {
  TrainSection section{*this};
  using enum config::Role;
  s.section("train", section, kTraining);
  s.section("schedule", schedule, kTraining);
  s.section("optimizer", optimizer, kTraining);
  s.section("lbfgs", lbfgs, kTraining);
  s.section("broyden", broyden, kTraining);
  s.section("levenberg_marquardt", levenberg_marquardt, kTraining);
}

void TrainOptions::validate() const { optimizer.validate(); }

std::vector<config::UnusedOption> TrainOptions::unused_options() const {
  std::vector<config::UnusedOption> unused;
  if (!by_full_steps_alone()) return unused;
  for (const char* key :
       {"train.clip", "train.accumulate", "schedule.", "optimizer.beta",
        "optimizer.eps", "optimizer.bias_correction"}) {
    unused.push_back(
        {key, fmt::format("it is for steps of Adam, and all are of {}",
                          full_name(optimizer.kind))});
  }
  return unused;
}

int64_t TrainOptions::steps_per_epoch(int64_t cases) const {
  // Such a step is a pass over all cases, however they are parted.
  if (by_full_steps_alone() || batch == 0) return 1;
  return std::max<int64_t>(1, cases / batch / accumulate);
}

int64_t TrainOptions::total_steps(int64_t cases) const {
  return max_steps > 0 ? max_steps : epochs * steps_per_epoch(cases);
}

std::optional<int64_t> TrainOptions::scheduled_steps(
    std::optional<int64_t> cases) const {
  if (is_full(optimizer.kind)) return optimizer.adam_steps;
  if (!cases && max_steps == 0 && batch > 0) return std::nullopt;
  return total_steps(cases.value_or(0));
}

}  // namespace propagator::train
