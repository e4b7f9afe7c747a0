#pragma once

#include <nlohmann/json.hpp>

#include "propagator/report/report.h"
#include "propagator/tasks/explainable.h"

namespace propagator::explain {

// Does any output depend on an input that it must not see? For outputs spread
// over the sequence the gradient with respect to every input is taken; a
// hidden input with a gradient that is not exactly zero is a leak.
struct LeakAudit {
  std::vector<int64_t> outputs;  // those that were checked
  std::vector<int64_t> hidden;   // first hidden input of each
  torch::Tensor gradients;       // (outputs, T), largest |gradient| on an input
  int64_t pairs_checked = 0;     // (output, hidden input)
  int64_t leaks = 0;             // of those pairs
  double largest_hidden = 0;     // largest |gradient| on a hidden input
  double largest_visible = 0;

  // "0 leaks in 1152 pairs of an output and a hidden input (12 outputs; …)"
  std::string verdict() const;
  nlohmann::json to_json() const;
};

LeakAudit audit_leaks(const tasks::AuditSubject& subject, int64_t seed,
                      int64_t most_outputs = 12);

// The figure leak-audit: outputs against inputs, with the border behind which
// nothing may be.
void draw(const LeakAudit& audit, report::Report& report);

}  // namespace propagator::explain
