#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "propagator/run/run.h"
#include "propagator/serve/infer_response.h"

namespace propagator::serve {

// A run as clients see it: a name, a version, tensors in, tensors out.
class ServedModel {
 public:
  // As the runs' folders are named, or NAME=FOLDER. The run is read, and
  // nothing is written. Errors as of run::open; UsageError for a name that
  // cannot stand in a URL.
  static std::shared_ptr<const ServedModel> open(const std::string& text,
                                                 const run::Change& change);
  ServedModel(std::string name, std::shared_ptr<const run::Run> run);

  const std::string& name() const { return name_; }
  // The checkpoint: "step-0000003000".
  const std::string& version() const { return run_->checkpoint(); }
  const Ports& inputs() const { return inputs_; }
  const Ports& outputs() const { return outputs_; }
  const run::Run& run() const { return *run_; }
  // Of the CPU, that computing takes.
  int64_t threads() const { return threads_; }
  bool has_guard() const;
  // Name, versions, platform, inputs and outputs, as the protocol has them.
  nlohmann::json metadata() const;

  // Refused if the answer would take more than so many bytes; UsageError if the
  // inputs' shapes are known to be wrong.
  void expect_answer_within(const NamedTensors& inputs, int64_t bytes) const;

  // The cases of these inputs if they may be computed with those of others that
  // have the same `layout`; nothing if not.
  std::optional<int64_t> cases_to_join(const NamedTensors& inputs) const;
  // Types and all lengths but the first.
  static std::string layout(const NamedTensors& inputs);

  // All answers in the type of `datatype`. Errors as of Surrogate::apply.
  NamedTensors apply(const NamedTensors& inputs) const;
  std::optional<tasks::Guard> guard(const NamedTensors& inputs,
                                    const NamedTensors& answers) const;

 private:
  std::string name_;
  std::shared_ptr<const run::Run> run_;
  const tasks::Surrogate& surrogate_;
  Ports inputs_, outputs_;
  int64_t threads_;
  // Large answers are in the model's type, small ones keep every digit.
  torch::ScalarType type_;
};

}  // namespace propagator::serve
