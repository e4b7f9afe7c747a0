#pragma once

#include "propagator/report/report.h"
#include "propagator/tasks/explainable.h"

namespace propagator::explain {

// How much outputs depend on inputs in the pass of training: for outputs
// spread over the sequence, the largest gradient with respect to every input.
// A picture beside the leak audit, which alone proves anything.
struct Dependence {
  std::vector<int64_t> outputs;  // those that were looked at
  std::vector<int64_t> hidden;   // first hidden input of each
  torch::Tensor gradients;       // (outputs, T), largest |gradient| on an input
};

Dependence find_dependence(const tasks::AuditSubject& subject, int64_t seed,
                           int64_t most_outputs = 12);

// The figure leak-audit: outputs against inputs, with the border behind which
// nothing may be.
void draw(const Dependence& dependence, report::Report& report);

}  // namespace propagator::explain
