#include "propagator/train/trainer.h"

#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/core/machine.h"
#include "propagator/core/plain_text.h"
#include "propagator/core/progress.h"
#include "propagator/core/ranks.h"
#include "propagator/nn/init.h"
#include "propagator/train/redrawable.h"

namespace propagator::train {
namespace {

// A training that has not gained for so many validations, and is so many times
// worse than its best, has gone astray.
constexpr int64_t kSignsOfTrouble = 3;
constexpr double kAstray = 10;

// Batch 0 is all cases.
TrainOptions with_batch(TrainOptions options, int64_t cases) {
  if (options.batch == 0) options.batch = cases;
  return options;
}

}  // namespace

Trainer::Trainer(Trainable& task, std::shared_ptr<torch::nn::Module> model,
                 const TrainOptions& options, int64_t seed,
                 const Runtime& runtime, std::string config, Tuning* tuning)
    : task_(task),
      model_(std::move(model)),
      tuning_(tuning),
      options_(with_batch(options, task.size(data::Split::kTrain))),
      runtime_(runtime),
      config_(std::move(config)),
      sampler_(task.size(data::Split::kTrain), options_.batch, seed),
      stepper_(task, model_,
               {options_.batch, options.accumulate, options.clip,
                options.optimizer, options.slices},
               runtime, tuning),
      best_value_(std::numeric_limits<double>::infinity()) {
  stage_.full_from = options_.optimizer.adam_steps;
  const bool trains = nn::parameter_count(*model_) > 0;
  if (trains) {
    full_step_ = make_full_step(task, model_, stepper_.parameters(), options_,
                                options_.batch, runtime);
  }
  const int64_t cases = task.size(data::Split::kTrain);
  steps_per_epoch_ = options.steps_per_epoch(cases);
  total_steps_ = trains ? options.total_steps(cases) : 0;
  validate_every_ =
      options.validate_every > 0 ? options.validate_every : steps_per_epoch_;
  checkpoint_every_ =
      options.checkpoint_every > 0 ? options.checkpoint_every : validate_every_;
}

double Trainer::seconds() const { return seconds_before_ + clock_.seconds(); }

void Trainer::forget_best() {
  best_value_ = std::numeric_limits<double>::infinity();
  best_step_ = step_;
  best_.clear();
  best_adapter_.clear();
  validations_without_gain_ = 0;
}

void Trainer::take_over(RunDirectory& run) {
  run_ = &run;
  if (ranks().is_first()) clear(run);
  if (is_done() && saved_step_ >= 0) return;
  const auto now = computed_by(runtime_);
  if (std::find(trained_by_.begin(), trained_by_.end(), now) ==
      trained_by_.end()) {
    trained_by_.push_back(now);
  }
}

void Trainer::clear(RunDirectory& run) {
  remove_unfinished(run.checkpoints());
  for (const auto& file : {run.config(), run.metrics(), run.result()}) {
    remove_unfinished(run.path(), file.filename());
  }
  for (const auto& later : list_checkpoints(run.checkpoints())) {
    // Of a future that this run, resumed from an earlier point, gives up.
    if (later > checkpoint_path(run.checkpoints(), step_)) {
      remove_atomically(later);
    }
  }
  metrics_ = std::make_unique<MetricsFile>(run.metrics(), step_);
}

StopReason Trainer::run(RunDirectory& run) {
  // However the loop ends, a checkpoint that was begun is whole afterwards.
  const struct Wait {
    std::future<void>& saving;
    ~Wait() {
      if (saving.valid()) saving.wait();
    }
  } wait{saving_};
  const struct Training {
    Training() { observer().training_began(); }
    ~Training() { observer().training_ended(); }
  } training;
  clock_.start();
  since_saved_.start();
  take_over(run);
  model_->train();
  const bool timed = options_.budget > 0;
  const auto done = [&] {
    return timed
               ? std::min<int64_t>(std::llround(seconds()), budget_in_seconds())
               : step_;
  };
  Progress progress(timed ? "second" : "step",
                    timed ? budget_in_seconds() : total_steps_, done());
  auto reason = StopReason::kFinished;
  while (!is_done() && reason == StopReason::kFinished) {
    advance();
    if (step_ == stage_.full_from) stage_.full_seconds = shared_seconds();
    progress.update(done(), [this] { return progress_note(); });
    if (step_ % validate_every_ == 0 || is_last()) {
      note_validation(validate());
      if (!spent_ && task_.ends_stage(standing())) begin_stage();
    }
    if (is_last()) break;
    if (due_ && !(is_saving() && options_.checkpoint_every == 0)) save();
    reason = reason_to_stop();
  }
  if (step_ != saved_step_) save();
  finish_saving();
  if (converged()) {
    log::info("{} stopped: {}", full_name(options_.optimizer.kind),
              full_step_->why());
  }
  if (reason == StopReason::kFinished && step_ < total_steps_) {
    reason = StopReason::kEarlyStop;
  }
  return reason;
}

StopReason Trainer::own_reason_to_stop() const {
  if (observer().stop_requested()) return StopReason::kRequest;
  const bool late =
      options_.time_limit > 0 && clock_.seconds() > options_.time_limit;
  return late ? StopReason::kTimeLimit : StopReason::kFinished;
}

void Trainer::advance() {
  const double lr =
      learning_rate(options_.schedule, step_, epoch(), total_steps_);
  update(lr);
  ++step_;
  spent_ = is_spent();
  const bool logged = step_ % options_.log_every == 0 || is_last();
  const bool validated = step_ % validate_every_ == 0;
  due_ = step_ % checkpoint_every_ == 0 ||
         since_saved_.seconds() > options_.checkpoint_minutes * 60;
  // Reading makes the host wait for a GPU, which a step by itself never does;
  // nothing bad is ever saved.
  if (runtime_.device.is_cpu() || logged || validated || due_) read_step();
  if (!logged) return;
  nlohmann::json extra{{"gradient_norm", last_norm_}};
  if (is_full_step(step_ - 1)) {
    extra["iterations"] = full_step_->outcome().iterations;
    extra["evaluations"] = full_step_->outcome().evaluations;
  } else {
    extra["lr"] = lr;
  }
  write_metrics("train", last_, extra);
}

void Trainer::expect_step(int64_t step) {
  Parts batches;
  for (int64_t part = 0; part < options_.accumulate; ++part) {
    batches.push_back(torch::tensor(
        sampler_.batch(step * options_.accumulate + part), torch::kInt64));
  }
  const auto slices = slices_of(batches, options_.slices);
  const auto own = own_share(options_.slices);
  for (int64_t n = own.begin; n < own.end; ++n) {
    for (const auto& part : slices[static_cast<size_t>(n)]) task_.expect(part);
  }
}

void Trainer::update(double lr) {
  task_.begin_step(*model_, step_);
  if (is_full_step(step_)) {
    if (full_step_->failed()) {
      auto* drawn = dynamic_cast<Redrawable*>(&task_);
      if (drawn != nullptr && drawn->redraw(*model_, step_)) {
        full_step_->expect_new_cases();
      }
    }
    full_step_->run();
    return;
  }
  std::vector<int64_t> positions;
  for (int64_t part = 0; part < options_.accumulate; ++part) {
    const auto batch = sampler_.batch(step_ * options_.accumulate + part);
    positions.insert(positions.end(), batch.begin(), batch.end());
  }
  if (!task_.data_on_device()) expect_step(step_ + 1);
  stepper_.run(positions, lr);
}

void Trainer::read_step() {
  const auto record =
      is_full_step(step_ - 1) ? full_step_->read() : stepper_.read();
  last_ = record.loss;
  last_norm_ = record.gradient_norm;
  check_finite(last_);
  if (!std::isfinite(last_norm_)) {
    throw NumericalError(
        fmt::format("[train] the gradient is {} at step {}", last_norm_, step_),
        what_may_help());
  }
}

std::string Trainer::progress_note() const {
  auto note = options_.budget > 0 ? fmt::format("step {}  ", step_) : "";
  note += fmt::format("loss {:.3e}", last_.total);
  if (std::isfinite(best_value_)) {
    note += fmt::format("  best validation {:.3e}", best_value_);
  }
  return note;
}

std::string Trainer::what_may_help() const {
  if (step_ <= 1) {
    return "it is so before any training: are data, formulas and points in "
           "order?";
  }
  const std::string way =
      is_full_step(step_ - 1)
          ? "another seed, other points or --precision fp64 may help"
          : "lower schedule.lr, or set train.clip=1";
  return saved_step_ > 0 ? way + "; the last checkpoint is good" : way;
}

void Trainer::check_finite(const LossValues& loss) const {
  // Terms may be computed together, so that one spoils all of them.
  std::vector<std::string> bad;
  double value = 0;
  for (const auto& [name, term] : loss.terms) {
    if (std::isfinite(term)) continue;
    if (bad.empty()) value = term;
    bad.push_back("'" + name + "'");
  }
  if (!bad.empty()) {
    throw NumericalError(
        fmt::format("[train] loss term{} {} {} {} at step {}",
                    bad.size() == 1 ? "" : "s", fmt::join(bad, ", "),
                    bad.size() == 1 ? "is" : "are", value, step_),
        what_may_help());
  }
  if (!std::isfinite(loss.total)) {
    throw NumericalError(
        fmt::format("[train] the loss is {} at step {}", loss.total, step_));
  }
}

LossValues Trainer::validate() {
  const torch::NoGradGuard no_grad;
  expect_equal_ranks();
  model_->eval();
  const int64_t available = task_.size(data::Split::kValidation);
  const int64_t size = options_.validate_cases > 0
                           ? std::min(options_.validate_cases, available)
                           : available;
  std::vector<std::string> names;
  Progress progress("validating", size);
  const auto means =
      mean_loss(task_, *model_, data::Split::kValidation,
                parts_of(size, options_.batch, torch::kInt64), runtime_, names,
                [&](int64_t done) { progress.update(done); });
  model_->train();
  return read_values(means, names);
}

void Trainer::note_validation(const LossValues& loss) {
  check_finite(loss);
  write_metrics("validation", loss, {});
  if (stage_.first == 0) stage_.first = loss.total;
  const bool better = loss.total < best_value_;
  validations_without_gain_ = better ? 0 : validations_without_gain_ + 1;
  if (better) {
    best_value_ = loss.total;
    best_step_ = step_;
    best_ = copy_parameters(*model_);
    if (tuning_ != nullptr) best_adapter_ = tuning_->adapter();
  }
  std::string terms;
  for (const auto& [name, value] : loss.terms) {
    terms += fmt::format("  {} {:.2e}", name, value);
  }
  if (is_full_step(step_ - 1)) {
    const auto& outcome = full_step_->outcome();
    terms += fmt::format("  ({} iterations, {} evaluations)",
                         outcome.iterations, outcome.evaluations);
  }
  const auto of_all =
      options_.budget > 0 ? "" : fmt::format("/{}", total_steps_);
  log::info("step {}{}  epoch {}  train {:.3e}  validation {:.3e}{}  ({}){}",
            step_, of_all, (step_ - 1) / steps_per_epoch_ + 1, last_.total,
            loss.total, better ? " best" : "", duration_text(seconds()), terms);
  // A loss that may be negative, as minus a log likelihood, has no multiples.
  if (validations_without_gain_ != kSignsOfTrouble || best_value_ <= 0 ||
      loss.total <= kAstray * best_value_) {
    return;
  }
  const bool fits = last_.total < best_value_;
  const char* help = fits         ? "more data, or resampled points,"
                     : full_step_ ? "more data"
                                  : "a lower schedule.lr or train.clip=1";
  log::warn(
      "the validation loss is {:.0f} times the best, of step {}{}. The best "
      "weights are kept; {} may help",
      loss.total / best_value_, best_step_,
      fits ? ", while that of training is small: the model fits what it is "
             "shown and nothing beside it"
           : ": the training may have diverged",
      help);
}

Standing Trainer::standing() const {
  const double now = shared_seconds();
  const auto share = [&](double seconds, int64_t steps) {
    return options_.budget > 0
               ? seconds / options_.budget
               : static_cast<double>(steps) / static_cast<double>(total_steps_);
  };
  return {.first = stage_.first,
          .best = best_value_,
          .done = share(now, step_),
          .stage = share(now - stage_.seconds, step_ - stage_.step),
          .full = step_ < stage_.full_from ? 0
                                           : share(now - stage_.full_seconds,
                                                   step_ - stage_.full_from),
          .stopped = converged()};
}

void Trainer::begin_stage() {
  load_best();
  const bool anew = task_.begin_stage(*model_);
  stepper_.begin_stage();
  const double now = shared_seconds();
  stage_ = {
      .step = step_, .full_from = step_, .seconds = now, .full_seconds = now};
  if (anew) {
    stage_.full_from += options_.optimizer.adam_steps;
    auto moments = stepper_.optimizer().state();
    for (auto& [name, moment] : moments) moment = torch::zeros_like(moment);
    stepper_.optimizer().restore(moments, /*steps=*/0);
  }
  if (full_step_) {
    full_step_ = make_full_step(task_, model_, stepper_.parameters(), options_,
                                options_.batch, runtime_);
  }
  forget_best();
}

void Trainer::write_metrics(const char* kind, const LossValues& loss,
                            nlohmann::json extra) {
  if (!metrics_) return;
  nlohmann::json line{{"kind", kind},
                      {"step", step_},
                      {"epoch", (step_ - 1) / steps_per_epoch_ + 1},
                      {"loss", loss.total},
                      {"seconds", seconds()}};
  for (const auto& [name, value] : loss.terms) {
    if (!is_plain_text(name)) {
      throw std::invalid_argument(fmt::format(
          "[trainer] expected the name of a term in UTF-8 without control "
          "characters, got '{}'",
          plain_text(name)));
    }
    line["terms"][name] = value;
  }
  line.update(extra.is_null() ? nlohmann::json::object() : extra);
  metrics_->write(line);
}

bool Trainer::is_saving() const {
  return saving_.valid() &&
         saving_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void Trainer::finish_saving() {
  if (saving_.valid()) saving_.get();
}

void Trainer::load_best() {
  if (!best_.empty()) set_parameters(*model_, best_, "best.safetensors");
}

}  // namespace propagator::train
