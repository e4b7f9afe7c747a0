#pragma once

#include <memory>
#include <optional>

#include "propagator/core/device.h"
#include "propagator/tasks/task.h"
#include "propagator/train/trainer.h"
#include "propagator/train/tuning.h"

namespace propagator::run {

struct RunOptions {
  std::string task;
  std::string name;
  int64_t seed = 0;
  std::string device = "auto";
  Precision precision = Precision::kFloat32;
  int64_t threads = 0;

  void describe(config::Schema& schema);
  void validate() const;
};

struct ReportOptions {
  bool page = true;
  int64_t cases = 4;

  void describe(config::Schema& schema);
};

struct ReproduceOptions {
  std::string metric, also;
  double max = 0, also_max = 0;
  double published = 0;
  int64_t seeds = 1;

  void describe(config::Schema& schema);
};

// One experiment as a configuration describes it: a task with its model, how
// to train it, and where. Read it from a file, override what you like, and
// everything else follows.
class Experiment {
 public:
  // Reads, checks bounds and cross-checks; ConfigError with the place.
  explicit Experiment(config::Document document);

  const config::Schema& schema() const { return schema_; }
  tasks::Task& task() const { return *task_; }
  const RunOptions& run() const { return run_; }
  const train::TrainOptions& train() const { return train_; }
  const train::TuneOptions& tune() const { return tune_; }
  // Of this session alone, in place of the configuration's.
  void limit_time(double seconds) { session_limit_ = seconds; }
  // Reads no more data than pages show, where the task has a key for that.
  void prepare_for_pages();
  double time_limit() const {
    return session_limit_.value_or(train_.time_limit);
  }
  const ReportOptions& report() const { return report_; }
  const ReproduceOptions& reproduce() const { return reproduce_; }

  // What is set under a former name, without effect, or with another one than
  // it seems; `cases`: how many there are to train on, if that is known.
  std::vector<std::string> remarks(std::optional<int64_t> cases) const;

  // ConfigError, with the place, if `reproduce` is about a metric that the
  // task's test cannot have. Who only trains need not care.
  void expect_metric() const;

  // Which of its keys make it need less memory.
  std::string hint_for_memory() const;

  // The resolved configuration, and the SHA-256 of all of it that decides the
  // numbers, which the fields' roles say.
  std::string yaml() const { return config::to_yaml(schema_, true); }
  std::string hash() const;

  Runtime make_runtime() const;
  // A model on the CPU in float32, not yet initialised, with what a
  // fine-tuning adds to it.
  std::shared_ptr<torch::nn::Module> new_model() const;
  // A new model with this seed's weights, on the runtime's device.
  std::shared_ptr<torch::nn::Module> make_model(const Runtime& runtime) const;
  // The fine-tuning of a model that has its weights; null if none is asked for.
  // ConfigError, with the place, if a pattern matches nothing.
  std::unique_ptr<train::Tuning> make_tuning(torch::nn::Module& model) const;
  // Does `work`; a ConfigError of it gets the place of its key.
  template <class Work>
  auto with_place(Work&& work) const {
    try {
      return work();
    } catch (const ConfigError& error) {
      document_.rethrow_with_place(error);
    }
  }

 private:
  RunOptions run_;
  train::TrainOptions train_;
  train::TuneOptions tune_;
  ReportOptions report_;
  ReproduceOptions reproduce_;
  config::Document document_;
  std::unique_ptr<tasks::Task> task_;
  config::Schema schema_;
  std::vector<std::string> renamed_;  // what to say of keys with former names
  std::optional<double> session_limit_;
};

}  // namespace propagator::run
