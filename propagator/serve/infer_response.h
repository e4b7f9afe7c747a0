#pragma once

#include <torch/types.h>

#include "propagator/serve/http.h"
#include "propagator/serve/infer_request.h"
#include "propagator/tasks/guarded.h"

namespace propagator::serve {

// What a model says to one request.
struct Answer {
  NamedTensors outputs;
  std::optional<tasks::Guard> guard;  // if it was asked for and there is one
};

// The response of the Open Inference Protocol, version 2: the outputs that were
// asked for, each as numbers in JSON (null where one is not finite) or as
// little-endian bytes behind it. `model` is its name and `version`.
Response write_infer_response(const InferRequest& request, const Answer& answer,
                              const std::string& model,
                              const std::string& version);

}  // namespace propagator::serve
