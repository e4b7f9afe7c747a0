#include "propagator/explain/dependence.h"

#include <fmt/format.h>
#include <torch/autograd.h>

#include <algorithm>
#include <limits>

#include "propagator/core/random.h"

namespace propagator::explain {

Dependence find_dependence(const tasks::AuditSubject& subject, int64_t seed,
                           int64_t most_outputs) {
  auto inputs =
      subject.inputs.slice(0, 0, 1).detach().clone().set_requires_grad(true);
  const auto output = subject.forward(inputs);
  const int64_t tokens = output.size(1);
  const int64_t count = std::min(most_outputs, tokens);
  // A random cotangent: a dependence cannot hide by cancelling in a sum.
  const auto cotangent =
      RandomStream(seed, "cotangent")
          .uniform(output.select(1, 0).sizes(), -1, 1, torch::kFloat64)
          .to(output.options());
  Dependence found;
  std::vector<torch::Tensor> rows;
  for (int64_t k = 0; k < count; ++k) {
    // Spread over the sequence, first and last included.
    const int64_t i = count == 1 ? tokens - 1 : k * (tokens - 1) / (count - 1);
    const auto gradient = torch::autograd::grad(
        {(output.select(1, i) * cotangent).sum()}, {inputs}, {},
        /*retain_graph=*/true)[0];
    const auto size = gradient.abs().flatten(2).amax({0, 2}).cpu();  // (T)
    found.outputs.push_back(i);
    found.hidden.push_back(std::min(subject.first_hidden(i), size.size(0)));
    rows.push_back(size);
  }
  found.gradients = torch::stack(rows);
  return found;
}

void draw(const Dependence& dependence, report::Report& report) {
  const auto sizes = dependence.gradients.to(torch::kFloat64);
  const auto shown =
      torch::where(sizes > 0, sizes.log10(),
                   torch::full({}, std::numeric_limits<double>::quiet_NaN(),
                               torch::kFloat64));
  // The outputs are spread evenly, so that the axis may count in frames.
  const auto count = static_cast<double>(dependence.outputs.size());
  const auto first = static_cast<double>(dependence.outputs.front());
  const auto last = static_cast<double>(dependence.outputs.back());
  const double step = (last - first) / std::max(count - 1, 1.0);
  std::vector<std::pair<double, double>> border;
  for (size_t k = 0; k < dependence.outputs.size(); ++k) {
    const double x = static_cast<double>(dependence.hidden[k]) - 0.5;
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
                  "with respect to every input, in one case, as in training; "
                  "grey is exactly zero. Right of the line are inputs that "
                  "the output must not see.",
                  dependence.outputs.size()));
}

}  // namespace propagator::explain
