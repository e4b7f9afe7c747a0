#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/device.h"
#include "propagator/data/split.h"
#include "propagator/nn/init.h"
#include "propagator/report/field_maps.h"
#include "propagator/report/report.h"
#include "propagator/train/history.h"

namespace propagator::train {

// One named part of a loss. `value` is a scalar without gradient.
struct LossTerm {
  std::string name;
  double weight;
  torch::Tensor value;
};

// In front of the name of a term that is no part of a loss but the weight of
// one, where it changes in training.
inline constexpr std::string_view kWeightOf = "weight of ";

// What training descends on, and the terms it is made of: their names reach
// the progress line, the metrics and the plots.
struct Loss {
  torch::Tensor total;  // scalar with gradient
  std::vector<LossTerm> terms;
};

// What a leak audit needs of a model that works on a sequence of inputs:
// output i must not depend on inputs first_hidden(i) and later.
struct AuditSubject {
  torch::Tensor inputs;  // (1, T, …)
  std::function<torch::Tensor(const torch::Tensor&)> forward;
  std::function<int64_t(int64_t)> first_hidden;
};

// What it takes to compare the propagator that a model has learned with the
// true one: both carry a first frame to the frames `times`.
struct PropagatorSubject {
  // (N, R, C) → (N, times, R, C)
  using Map = std::function<torch::Tensor(const torch::Tensor& states)>;
  Map model, truth;
  Map given;  // (N, R, C) → (N, 1, R, C), the last frame the model is given
  std::vector<int64_t> times;
  torch::Tensor state;     // (R, C), where the model is linearised
  torch::Tensor ensemble;  // (K, R, C), directions in which the data vary
  double work;             // floating-point operations of `model` for one state
  report::Axis x, y;
  std::string quantity;
};

// A test in words: the table of its numbers and what to say below it.
struct Summary {
  report::Table table;
  std::vector<std::string> remarks;
};

// A number by which runs are compared.
struct Metric {
  std::string name;
  double value;
};

// A row of `reproduce`; history and maps are of the seed with the median.
struct ReproducedRow {
  std::string name;        // "wave-pinnsformer"
  nlohmann::json summary;  // as its file under results/ has it
  History history;
  // Task::maps of its model, which is loaded for it; nothing where that fails.
  std::function<std::optional<report::FieldMaps>()> maps = [] {
    return std::nullopt;
  };
};

// A figure in a folder, and what it shows.
struct NamedFigure {
  std::string name;  // of its files
  report::Figure figure;
  std::string caption;
};

// A key that is unused beside the others as they are set, or all keys that
// begin so.
struct UnusedOption {
  std::string key;
  std::string why;
};

// A task is the data, the loss and the metrics that a model is trained for.
// The trainer and the program know tasks only through this interface.
class Task {
 public:
  virtual ~Task() = default;

  // The task's part of the configuration, the model's options included.
  virtual void describe(config::Schema& schema) = 0;
  // What training is like for this task unless the configuration says
  // otherwise: keys of other sections and their values.
  virtual std::map<std::string, std::string> defaults() const { return {}; }
  // ConfigError if fields contradict one another.
  virtual void validate() = 0;
  // Its own keys that are without effect. After validate.
  virtual std::vector<UnusedOption> unused_options() const { return {}; }

  // What a configuration means to the task, in lines for `check`; ConfigError
  // if it cannot be meant. After validate.
  virtual std::vector<std::string> inspect() { return {}; }

  // "honest", or "published" where a document's flaw is reproduced.
  virtual std::string mode() const = 0;

  // Makes or opens the data; before it only describe, validate, make_model.
  virtual void prepare(int64_t seed, const Runtime& runtime) = 0;
  // A new model, on the CPU in float32, not yet initialised.
  virtual std::shared_ptr<torch::nn::Module> make_model() const = 0;
  // Gives it the weights that training begins with.
  virtual void initialise(torch::nn::Module& model, int64_t seed) const {
    nn::initialise(model, seed);
  }
  // Gives a new model what it takes from the training data before it learns.
  virtual void calibrate(torch::nn::Module&) {}

  // Called before each training step: where the loss changes as training goes
  // on (new points, other weights), here it does, in place. What it has made
  // of the data is its state, which a checkpoint holds.
  virtual void begin_step(torch::nn::Module&, int64_t /*step*/) {}
  virtual std::map<std::string, torch::Tensor> state() const { return {}; }
  virtual void restore(const std::map<std::string, torch::Tensor>&) {}

  virtual int64_t size(data::Split split) const = 0;
  // `positions` (B) in the split, int64, on the CPU or with the data.
  virtual Loss loss(torch::nn::Module& model, data::Split split,
                    const torch::Tensor& positions) = 0;
  // Whether `loss` works from the device's memory alone when it is given
  // positions there: nothing is copied from or to the host.
  virtual bool data_on_device() const { return false; }

  // The numbers of a test, and the table that shows them.
  virtual nlohmann::json evaluate(torch::nn::Module& model,
                                  data::Split split) = 0;
  virtual Summary summary(const nlohmann::json& result) const = 0;
  // The most telling one first.
  virtual std::vector<Metric> metrics(const nlohmann::json& result) const = 0;
  // Whether it says that the training has come to nothing, however it ended.
  virtual bool failed(const nlohmann::json& /*result*/) const { return false; }
  // What a document claims for the first of them; nothing if none does.
  virtual std::optional<double> document_value() const { return std::nullopt; }
  // The result over time or whatever it runs along; our curve comes first.
  virtual report::LinePlot curves(const nlohmann::json& result) const = 0;

  // Figures of a test: its numbers (`result` may be empty) and `cases` of its
  // answers.
  virtual void draw(torch::nn::Module& model, const nlohmann::json& result,
                    int64_t cases, report::Report& report) = 0;
  // Figures of rows of this task, one or several.
  virtual std::vector<NamedFigure> draw_rows(
      std::span<const ReproducedRow>) const {
    return {};
  }
  // The answer over a plane, for figures of several models; nothing where the
  // task has no such thing.
  virtual std::optional<report::FieldMaps> maps(torch::nn::Module&) {
    return std::nullopt;
  }
  // Figures of the model itself: weights, encodings, masks.
  virtual void draw_model(torch::nn::Module&, report::Report&) {}

  // What pages and explanations work on; nothing where the task has no such
  // thing. Cases [first, first + count) as fields over time:
  virtual std::optional<report::FieldSeries> fields(torch::nn::Module&,
                                                    data::Split,
                                                    int64_t /*first*/,
                                                    int64_t /*count*/) {
    return std::nullopt;
  }
  virtual std::optional<AuditSubject> audit_subject(torch::nn::Module&) {
    return std::nullopt;
  }
  virtual std::optional<PropagatorSubject> propagator_subject(
      torch::nn::Module&) {
    return std::nullopt;
  }

  // Applies the model to a user's file and writes the answer to another.
  // Returns what was done, in one line.
  virtual std::string predict(torch::nn::Module& model,
                              const std::string& input,
                              const std::string& output,
                              const Runtime& runtime) = 0;
};

}  // namespace propagator::train
