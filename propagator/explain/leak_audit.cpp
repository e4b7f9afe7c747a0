#include "propagator/explain/leak_audit.h"

#include <fmt/format.h>
#include <torch/autograd.h>

#include <algorithm>
#include <limits>

#include "propagator/core/random.h"

namespace propagator::explain {

std::string LeakAudit::verdict() const {
  return fmt::format(
      "{} {} in {} pairs of an output and a hidden input ({} outputs; largest "
      "gradient {:.1e} hidden, {:.1e} visible)",
      leaks, leaks == 1 ? "leak" : "leaks", pairs_checked, outputs.size(),
      largest_hidden, largest_visible);
}

nlohmann::json LeakAudit::to_json() const {
  return {{"verdict", verdict()},
          {"leaks", leaks},
          {"outputs_checked", outputs.size()},
          {"pairs_checked", pairs_checked},
          {"largest_hidden", largest_hidden},
          {"largest_visible", largest_visible}};
}

LeakAudit audit_leaks(const tasks::AuditSubject& subject, int64_t seed,
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
  std::vector<torch::Tensor> rows;
  for (int64_t k = 0; k < count; ++k) {
    // Spread over the sequence, first and last included.
    const int64_t i = count == 1 ? tokens - 1 : k * (tokens - 1) / (count - 1);
    const auto gradient = torch::autograd::grad(
        {(output.select(1, i) * cotangent).sum()}, {inputs}, {},
        /*retain_graph=*/true)[0];
    const auto size = gradient.abs().flatten(2).amax({0, 2}).cpu();  // (T)
    const int64_t hidden = std::min(subject.first_hidden(i), size.size(0));
    audit.outputs.push_back(i);
    audit.hidden.push_back(hidden);
    rows.push_back(size);
    const auto visible_part = size.slice(0, 0, hidden);
    const auto hidden_part = size.slice(0, hidden);
    audit.pairs_checked += hidden_part.size(0);
    audit.largest_visible =
        std::max(audit.largest_visible, visible_part.max().item<double>());
    if (hidden_part.size(0) > 0) {
      audit.leaks += (hidden_part != 0).sum().item<int64_t>();
      audit.largest_hidden =
          std::max(audit.largest_hidden, hidden_part.max().item<double>());
    }
  }
  audit.gradients = torch::stack(rows);
  return audit;
}

void draw(const LeakAudit& audit, report::Report& report) {
  const auto sizes = audit.gradients.to(torch::kFloat64);
  const auto shown =
      torch::where(sizes > 0, sizes.log10(),
                   torch::full({}, std::numeric_limits<double>::quiet_NaN(),
                               torch::kFloat64));
  // The outputs are spread evenly, so that the axis may count in frames.
  const auto count = static_cast<double>(audit.outputs.size());
  const auto first = static_cast<double>(audit.outputs.front());
  const auto last = static_cast<double>(audit.outputs.back());
  const double step = (last - first) / std::max(count - 1, 1.0);
  std::vector<std::pair<double, double>> border;
  for (size_t k = 0; k < audit.outputs.size(); ++k) {
    const double x = static_cast<double>(audit.hidden[k]) - 0.5;
    const double y = first + static_cast<double>(k) * step;
    border.emplace_back(x, y - step / 2);
    border.emplace_back(x, y + step / 2);
  }
  report::HeatMaps maps;
  maps.title = "Which inputs each output depends on";
  maps.x = {"input frame", 0, static_cast<double>(sizes.size(1) - 1)};
  maps.y = {"output frame", first, last};
  maps.rows = {
      {.bar_label = "log10 |gradient|", .panels = {{"", shown, border}}}};
  maps.panel_width =
      std::clamp(12.0 * static_cast<double>(sizes.size(1)), 300.0, 820.0);
  maps.panel_height = 300;
  report.figure(
      "leak-audit", maps,
      fmt::format("Largest gradient of {} outputs, spread over the sequence, "
                  "with respect to every input; grey is exactly zero. Right "
                  "of the line are inputs that the output must not see.",
                  audit.outputs.size()));
}

}  // namespace propagator::explain
