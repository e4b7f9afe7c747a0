#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "propagator/tasks/surrogate.h"

namespace propagator::serve {

using tasks::NamedTensors;
using Ports = std::vector<tasks::Surrogate::Port>;

// What a client asks of a model.
struct InferRequest {
  std::optional<std::string> id = {};
  bool guard = false;  // whether to say how far the answer may be trusted
  NamedTensors inputs = {};

  struct Output {
    std::string name;
    bool binary;  // as bytes behind the JSON, or as numbers in it
  };
  std::vector<Output> outputs = {};
};

// Reads the body of a request of the Open Inference Protocol, version 2: JSON,
// and behind its first `json_bytes`, where the client gives their number, the
// binary tensors in the order of the inputs. UsageError says what is wrong.
InferRequest read_infer_request(std::string_view body,
                                std::optional<std::string> json_bytes,
                                const Ports& inputs, const Ports& outputs);

}  // namespace propagator::serve
