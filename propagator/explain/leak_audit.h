#pragma once

#include <nlohmann/json.hpp>

#include "propagator/tasks/explainable.h"

namespace propagator::explain {

// Does any answer depend on an input that is hidden from it? A proof by
// perturbation: everything hidden is replaced, by noise in one half of the
// cases and by NaN in the other, and every answer on every path of the subject
// must keep its bits. (A gradient proves nothing: it is zero behind a detached
// tensor, an integer index or a saturated softmax.)
struct LeakAudit {
  struct Path {
    std::string name;
    int64_t outputs = 0;  // answers of a case at a time
    int64_t leaks = 0;    // of those
    // Whether the path repeats its own bits on the same inputs. Looked at
    // where there are leaks.
    bool repeatable = true;
  };
  std::vector<Path> paths = {};
  int64_t cases = 0, hidden = 0;  // hidden inputs of a case
  double seconds = 0;

  int64_t outputs() const;
  int64_t leaks() const;
  // "0 leaks in 3208 outputs (test, predict): …"
  std::string verdict() const;
  nlohmann::json to_json() const;
};

LeakAudit audit_leaks(const tasks::AuditSubject& subject, int64_t seed);

}  // namespace propagator::explain
