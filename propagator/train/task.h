#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/device.h"
#include "propagator/data/split.h"

namespace propagator::train {

// One named part of a loss. `value` is a scalar without gradient.
struct LossTerm {
  std::string name;
  double weight;
  torch::Tensor value;
};

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

// A task is the data, the loss and the metrics that a model is trained for.
// The trainer and the program know tasks only through this interface.
class Task {
 public:
  virtual ~Task() = default;

  // The task's part of the configuration, the model's options included.
  virtual void describe(config::Schema& schema) = 0;
  // ConfigError if fields contradict one another.
  virtual void validate() const = 0;

  // "honest", or "published" where a document's flaw is reproduced.
  virtual std::string mode() const = 0;

  // Makes or opens the data; before it only describe, validate, make_model.
  virtual void prepare(int64_t seed, const Runtime& runtime) = 0;
  // A new model, on the CPU in float32, not yet initialised.
  virtual std::shared_ptr<torch::nn::Module> make_model() const = 0;

  virtual int64_t size(data::Split split) const = 0;
  virtual Loss loss(torch::nn::Module& model, data::Split split,
                    std::span<const int64_t> positions) = 0;

  // The numbers of a test, and the table that shows them.
  virtual nlohmann::json evaluate(torch::nn::Module& model,
                                  data::Split split) = 0;
  virtual std::string table(const nlohmann::json& result) const = 0;
  virtual std::optional<AuditSubject> audit_subject(
      torch::nn::Module& model) = 0;

  // Applies the model to a user's file and writes the answer to another.
  // Returns what was done, in one line.
  virtual std::string predict(torch::nn::Module& model,
                              const std::string& input,
                              const std::string& output,
                              const Runtime& runtime) = 0;
};

}  // namespace propagator::train
