#pragma once

#include <cmath>
#include <future>

#include "propagator/core/stopwatch.h"
#include "propagator/train/checkpoint.h"
#include "propagator/train/full_step.h"
#include "propagator/train/run_directory.h"
#include "propagator/train/step.h"
#include "propagator/train/train_options.h"
#include "propagator/train/trainable.h"

namespace propagator::train {

enum class StopReason { kFinished, kEarlyStop, kRequest, kTimeLimit };

// Owns the loop: batch → loss terms → gradients → update; validation, best
// model, checkpoints, metrics, stopping. It knows what it trains by the small
// interface Trainable, and keeps all state that a checkpoint must hold. It
// reports to the observer of its thread, which may ask it to stop.
//
// Several ranks have each a trainer of the same: they share the gradients and
// validations, and take the same steps. Only the first one writes.
class Trainer {
 public:
  Trainer(Trainable& task, std::shared_ptr<torch::nn::Module> model,
          const TrainOptions& options, int64_t seed, const Runtime& runtime,
          std::string config, Tuning* tuning = nullptr);

  void restore(const Checkpoint& checkpoint);
  // Work before the first step, such as a fit, that belongs to the training.
  void count_seconds(double seconds) { seconds_before_ += seconds; }
  // The best validation so far says nothing of a loss that has changed since.
  void forget_best();
  // Trains to the end or to a reason to stop, and leaves a checkpoint and
  // metrics in `run`.
  StopReason run(RunDirectory& run);

  // 0 of a model without parameters to train.
  int64_t total_steps() const { return total_steps_; }
  int64_t step() const { return step_; }
  int64_t best_step() const { return best_step_; }  // of the best validation
  double seconds() const;  // of training, earlier sessions included
  double seconds_before() const { return seconds_before_; }  // this session
  // What trained it, earlier sessions included: each `computed_by` once, and
  // an empty one for an older program, which did not say.
  const nlohmann::json& trained_by() const { return trained_by_; }
  // Puts the weights of the best validation into the model.
  void load_best();

 private:
  void take_over(RunDirectory& run);
  void clear(RunDirectory& run);  // of what is not of this training
  void advance();                 // one step, with its line of metrics
  void expect_step(int64_t step);
  void update(double lr);
  bool is_last() const {
    return step_ >= total_steps_ || spent_ || converged();
  }
  bool is_done() const { return is_last() || out_of_patience(); }
  // Of ranks, the first one's clock is everybody's: all come here together.
  double shared_seconds() const;
  bool is_spent() const {
    return options_.budget > 0 && shared_seconds() >= options_.budget;
  }
  int64_t budget_in_seconds() const { return std::llround(options_.budget); }
  StopReason own_reason_to_stop() const;  // kFinished if there is none
  StopReason reason_to_stop() const;      // of any rank
  bool is_full_step(int64_t step) const {
    return full_step_ && step >= stage_.full_from;
  }
  bool converged() const { return full_step_ && full_step_->stopped(); }
  void read_step();           // its numbers into `last_`; NumericalError if bad
  void expect_equal_ranks();  // RuntimeError if their weights differ
  LossValues validate();
  void note_validation(const LossValues& loss);
  Standing standing() const;
  void begin_stage();
  // Starts to write a checkpoint of now, beside the training that goes on.
  void save();
  void start_saving();
  bool is_saving() const;
  void finish_saving();  // waits for it; throws what went wrong
  void write_metrics(const char* kind, const LossValues& loss,
                     nlohmann::json extra);
  void check_finite(const LossValues& loss) const;
  std::string what_may_help() const;  // where numbers are not finite
  std::string progress_note() const;
  bool out_of_patience() const {
    return options_.patience > 0 &&
           validations_without_gain_ >= options_.patience;
  }
  int64_t epoch() const { return step_ / steps_per_epoch_ + 1; }

  Trainable& task_;
  std::shared_ptr<torch::nn::Module> model_;
  Tuning* tuning_;  // or null
  TrainOptions options_;
  Runtime runtime_;
  RunDirectory* run_ = nullptr;  // while run() runs
  std::string config_;
  data::BatchSampler sampler_;
  Step stepper_;
  std::unique_ptr<FullStep> full_step_;   // or null
  std::unique_ptr<MetricsFile> metrics_;  // of the first rank
  int64_t steps_per_epoch_, total_steps_;
  int64_t validate_every_, checkpoint_every_;

  int64_t step_ = 0;
  LossValues last_;  // of the last training step that was read
  double last_norm_ = 0;
  double best_value_;
  int64_t best_step_ = 0;
  int64_t validations_without_gain_ = 0;
  NamedTensors best_, best_adapter_;
  struct Stage {
    int64_t step = 0, full_from = 0;       // where it, and full steps, begin
    double seconds = 0, full_seconds = 0;  // before both
    double first = 0;                      // its first validation loss
  };
  Stage stage_;
  double seconds_before_ = 0;
  nlohmann::json trained_by_ = nlohmann::json::array();
  int64_t saved_step_ = -1;
  bool due_ = false;    // a checkpoint, after this step
  bool spent_ = false;  // the budget of time, after this step
  Stopwatch clock_, since_saved_;
  std::future<void> saving_;
};

}  // namespace propagator::train
