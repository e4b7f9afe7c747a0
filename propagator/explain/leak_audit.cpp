#include "propagator/explain/leak_audit.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>

#include "propagator/core/error.h"
#include "propagator/core/random.h"
#include "propagator/core/stopwatch.h"

namespace propagator::explain {
namespace {

using nlohmann::json;
using torch::Tensor;

// Even cases with noise in place of what is hidden, odd ones with NaN.
Tensor perturbed(const tasks::AuditSubject& subject, int64_t seed) {
  const auto& inputs = subject.inputs;
  const auto low = inputs.min().item<double>();
  const auto high = inputs.max().item<double>();
  const double reach = std::max(high - low, 1e-3);  // inside the data and out
  auto changed = inputs.clone();
  auto hidden = changed.slice(1, subject.visible);
  hidden.copy_(RandomStream(seed, "audit")
                   .uniform(hidden[0].sizes(), low - reach, high + reach,
                            torch::kFloat64));
  hidden.slice(0, 1, hidden.size(0), 2)
      .fill_(std::numeric_limits<double>::quiet_NaN());
  return changed;
}

// The numbers as they are stored, so that NaN equals NaN and -0 is not 0.
Tensor bits(const Tensor& numbers) {
  const auto size = numbers.element_size();
  const auto type = size == 8   ? torch::kInt64
                    : size == 4 ? torch::kInt32
                    : size == 2 ? torch::kInt16
                                : torch::kUInt8;
  return numbers.contiguous().view(type);
}

// Which outputs differ: (B, T), or (B, 1) of an answer without time.
Tensor differences(const Tensor& one, const Tensor& other) {
  if (one.sizes() != other.sizes()) {
    return torch::ones({one.size(0), 1}, torch::kBool);
  }
  const auto differs = bits(one) != bits(other);
  if (differs.dim() < 2) return differs.unsqueeze(-1);
  return differs.dim() == 2 ? differs : differs.flatten(2).any(-1);
}

int64_t count_differences(const tasks::NamedTensors& one,
                          const tasks::NamedTensors& other) {
  int64_t count = 0;
  for (const auto& [name, answer] : one) {
    count += differences(answer, other.at(name)).sum().item<int64_t>();
  }
  return count;
}

int64_t count_outputs(const tasks::NamedTensors& answers) {
  int64_t count = 0;
  for (const auto& [name, answer] : answers) {
    count += differences(answer, answer).numel();
  }
  return count;
}

// An error that the hidden inputs cause is known to every output.
int64_t count_leaks(const tasks::NamedTensors& as_it_is,
                    const std::function<tasks::NamedTensors()>& answer) {
  try {
    return count_differences(as_it_is, answer());
  } catch (const std::exception& error) {
    if (exit_code(error) == ExitCode::kDevice) throw;
    return count_outputs(as_it_is);
  }
}

}  // namespace

int64_t LeakAudit::outputs() const {
  int64_t sum = 0;
  for (const auto& path : paths) sum += path.outputs;
  return sum;
}

int64_t LeakAudit::leaks() const {
  int64_t sum = 0;
  for (const auto& path : paths) sum += path.leaks;
  return sum;
}

std::string LeakAudit::verdict() const {
  std::vector<std::string> names;
  for (const auto& path : paths) names.push_back(path.name);
  auto text = fmt::format(
      "{} {} in {} outputs ({}): with noise or NaN in the {} hidden inputs of "
      "each of {} cases {}",
      leaks(), leaks() == 1 ? "leak" : "leaks", outputs(),
      fmt::join(names, ", "), hidden, cases,
      leaks() == 0 ? "every output keeps its bits" : "these change");
  if (!std::ranges::all_of(paths, &Path::repeatable)) {
    text += "; but the same inputs do not give the same bits either";
  }
  return text;
}

json LeakAudit::to_json() const {
  json each = json::array();
  for (const auto& path : paths) {
    each.push_back({{"path", path.name},
                    {"outputs", path.outputs},
                    {"leaks", path.leaks},
                    {"repeatable", path.repeatable}});
  }
  return {{"verdict", verdict()},
          {"leaks", leaks()},
          {"outputs_checked", outputs()},
          {"cases", cases},
          {"hidden_inputs", hidden},
          {"paths", each},
          {"seconds", seconds}};
}

LeakAudit audit_leaks(const tasks::AuditSubject& subject, int64_t seed) {
  const torch::NoGradGuard no_grad;
  const Stopwatch clock;
  const auto changed = perturbed(subject, seed);
  LeakAudit audit{.cases = changed.size(0),
                  .hidden = changed.size(1) - subject.visible};
  for (const auto& [name, answer] : subject.paths) {
    const auto as_it_is = answer(subject.inputs);
    LeakAudit::Path path{.name = name, .outputs = count_outputs(as_it_is)};
    path.leaks =
        count_leaks(as_it_is, [&, &ask = answer] { return ask(changed); });
    if (path.leaks > 0) {
      path.repeatable =
          count_differences(as_it_is, answer(subject.inputs)) == 0;
    }
    audit.paths.push_back(path);
  }
  audit.seconds = clock.seconds();
  return audit;
}

}  // namespace propagator::explain
