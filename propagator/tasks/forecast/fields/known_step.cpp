#include "propagator/tasks/forecast/fields/known_step.h"

#include <fmt/format.h>

#include "propagator/physics/fields/advection.h"
#include "propagator/physics/fields/heat_fields.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

constexpr const char* kAdvection = "advection";
constexpr const char* kBlobs = "blobs";
constexpr const char* kHeat = "heat-fields";

// Numbers of a case by their names; nothing where one is missing.
std::optional<std::vector<double>> numbers_named(
    const std::vector<std::string>& names, const data::FieldLayout& layout,
    const Tensor& parameters) {
  std::vector<double> numbers;
  for (const auto& name : names) {
    const auto at = std::ranges::find(layout.parameters, name);
    if (at == layout.parameters.end()) return std::nullopt;
    numbers.push_back(
        parameters[at - layout.parameters.begin()].item<double>());
  }
  return numbers;
}

// All axes of (N, nodes…, 1) at once.
auto of_one_channel(std::function<Tensor(const Tensor&)> map) {
  return [map = std::move(map)](const Tensor& changes) {
    return map(changes.squeeze(-1)).unsqueeze(-1);
  };
}

KnownStep shift(const std::vector<double>& velocity, double time) {
  std::vector<double> lengths;
  for (const double v : velocity) lengths.push_back(v * time);
  const auto law = velocity.size() == 1
                       ? fmt::format("u_t + {:.4g} u_x = 0", velocity[0])
                       : fmt::format("u_t + {:.4g} u_x + {:.4g} u_y = 0",
                                     velocity[0], velocity[1]);
  return {of_one_channel([lengths](const Tensor& states) {
            return physics::shifted(states, lengths);
          }),
          fmt::format("{} over a time of {:.4g}", law, time)};
}

}  // namespace

bool may_have_known_step(const std::string& simulator) {
  return simulator == kAdvection || simulator == kBlobs || simulator == kHeat;
}

std::optional<KnownStep> known_step(const nlohmann::json& note,
                                    const data::FieldLayout& layout,
                                    const Tensor& parameters) {
  const auto found = note.is_object() ? note.find("simulator") : note.end();
  if (found == note.end() || !found->is_string() ||
      layout.channels.size() != 1 || layout.times.numel() < 2) {
    return std::nullopt;
  }
  const auto simulator = found->get<std::string>();
  const double time = (layout.times[1] - layout.times[0]).item<double>();
  const size_t axes = layout.axes.size();
  const auto named = [&](const std::vector<std::string>& names) {
    return numbers_named(names, layout, parameters);
  };
  if (simulator == kAdvection && axes == 1) {
    if (const auto speed = named({"speed"})) return shift(*speed, time);
  }
  if (simulator == kBlobs && axes == 2) {
    if (const auto velocity = named({"velocity_x", "velocity_y"})) {
      return shift(*velocity, time);
    }
  }
  if (simulator == kHeat && axes == 2) {
    if (const auto alpha = named({"diffusivity"})) {
      return KnownStep{
          of_one_channel([diffusion = alpha->front() * time](const Tensor& u) {
            return physics::diffused(u, diffusion);
          }),
          fmt::format("u_t = {:.4g} (u_xx + u_yy) over a time of {:.4g}",
                      alpha->front(), time)};
    }
  }
  return std::nullopt;
}

double step_error(const KnownStep& step, const Tensor& frames) {
  const auto exact = frames.to(torch::kFloat64);
  const int64_t steps = frames.size(0) - 1;
  return physics::relative_l2(step.map(exact.narrow(0, 0, steps)),
                              exact.narrow(0, 1, steps));
}

}  // namespace propagator::tasks
