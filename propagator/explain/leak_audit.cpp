#include "propagator/explain/leak_audit.h"

#include <fmt/format.h>
#include <torch/autograd.h>

#include <algorithm>

#include "propagator/core/random.h"

namespace propagator::explain {

std::string LeakAudit::verdict() const {
  return fmt::format(
      "{} {} ({} outputs against {} hidden inputs; largest gradient {:.1e} "
      "hidden, {:.1e} visible)",
      leaks, leaks == 1 ? "leak" : "leaks", outputs_checked, pairs_checked,
      largest_hidden, largest_visible);
}

nlohmann::json LeakAudit::to_json() const {
  return {{"leaks", leaks},
          {"outputs_checked", outputs_checked},
          {"pairs_checked", pairs_checked},
          {"largest_hidden", largest_hidden},
          {"largest_visible", largest_visible}};
}

LeakAudit audit_leaks(const train::AuditSubject& subject, int64_t seed,
                      int64_t most_outputs) {
  auto inputs = subject.inputs.detach().clone().set_requires_grad(true);
  const auto output = subject.forward(inputs);
  const int64_t tokens = output.size(1);
  const int64_t count = std::min(most_outputs, tokens);
  // A random cotangent: a dependence cannot hide by cancelling in a sum.
  const auto cotangent =
      RandomStream(seed, "audit")
          .uniform(output.select(1, 0).sizes(), -1, 1, torch::kFloat64)
          .to(output.options());
  LeakAudit audit;
  for (int64_t k = 0; k < count; ++k) {
    // Spread over the sequence, first and last included.
    const int64_t i = count == 1 ? tokens - 1 : k * (tokens - 1) / (count - 1);
    const auto gradient = torch::autograd::grad(
        {(output.select(1, i) * cotangent).sum()}, {inputs}, {},
        /*retain_graph=*/true)[0];
    const auto size = gradient.abs().flatten(2).amax({0, 2}).cpu();  // (T)
    const int64_t hidden = std::min(subject.first_hidden(i), size.size(0));
    const auto visible_part = size.slice(0, 0, hidden);
    const auto hidden_part = size.slice(0, hidden);
    ++audit.outputs_checked;
    audit.pairs_checked += hidden_part.size(0);
    audit.largest_visible =
        std::max(audit.largest_visible, visible_part.max().item<double>());
    if (hidden_part.size(0) > 0) {
      audit.leaks += (hidden_part != 0).sum().item<int64_t>();
      audit.largest_hidden =
          std::max(audit.largest_hidden, hidden_part.max().item<double>());
    }
  }
  return audit;
}

}  // namespace propagator::explain
