#include "propagator/pde/greens/green_kernel.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "propagator/core/error.h"

namespace propagator::pde {
namespace {

using kernels::GreenKind;
using torch::Tensor;

// Which lengths the function of these options has.
bool has_core(const GreenOptions& o) {
  return o.kind == GreenKind::kPoisson ||
         (o.kind == GreenKind::kWave && o.dimensions > 1);
}

bool has_radius(const GreenOptions& o) {
  return o.kind == GreenKind::kPoisson && o.dimensions < 3;
}

[[noreturn]] void no_length(const std::string& key) {
  throw ConfigError(
      key,
      fmt::format("[green] expected a length {}, or sensors to take it from",
                  key),
      fmt::format("set {} to a length in the unit of the coordinates", key));
}

}  // namespace

void GreenOptions::describe(config::Schema& s) {
  s.field("kind", kind,
          {.help = "equation whose Green's function biases attention"});
  s.field("dimensions", dimensions,
          {.help = "dimensions of space", .min = 1, .max = 3});
  s.field("scale", scale,
          {.help = "full: log G; peak: log of G over its largest value at the "
                   "same time"});
  s.field("rate", rate,
          {.help = "diffusivity of heat and advection_diffusion, speed of wave",
           .min = 1e-30});
  const char* axes[] = {"velocity_x", "velocity_y", "velocity_z"};
  for (size_t n = 0; n < velocity.size(); ++n) {
    s.field(axes[n], velocity[n],
            {.help = "velocity of advection_diffusion along an axis"});
  }
  s.field("core", core,
          {.help = "length below which wave and poisson are smoothed; 0: the "
                   "spacing of the sensors",
           .min = 0});
  s.field("radius", radius,
          {.help = "distance at which poisson is zero in 1 and 2 dimensions; "
                   "0: twice the diagonal of the sensors' box",
           .min = 0});
  s.field("time_core", time_core,
          {.help = "time by which sources have spread already; above 0 tokens "
                   "of equal times see one another",
           .min = 0});
}

SensorLengths lengths_of(const Tensor& sensors, int64_t dimensions) {
  if (sensors.dim() != 2 || sensors.size(0) < 1 ||
      sensors.size(1) < dimensions) {
    throw UsageError(
        fmt::format("[green] expected sensors (N, {} or more), got ({})",
                    dimensions, fmt::join(sensors.sizes(), ", ")));
  }
  const auto at =
      sensors.slice(1, 0, dimensions).detach().to(torch::kCPU, torch::kFloat64);
  const auto extents = at.amax(0) - at.amin(0);
  double volume = 1, square = 0;
  int64_t axes = 0;
  for (int64_t n = 0; n < dimensions; ++n) {
    const double extent = extents[n].item<double>();
    if (!(extent > 0)) continue;
    volume *= extent;
    square += extent * extent;
    ++axes;
  }
  const auto count = static_cast<double>(at.size(0));
  return {
      axes > 0 ? std::pow(volume / count, 1 / static_cast<double>(axes)) : 0,
      std::sqrt(square)};
}

GreenKernel::GreenKernel(const GreenOptions& o, const Tensor& sensors) {
  function = {o.kind, o.dimensions, o.scale, o.core, o.radius, o.time_core};
  const bool core = has_core(o) && o.core == 0;
  const bool radius = has_radius(o) && o.radius == 0;
  if ((core || radius) && sensors.defined()) {
    const auto lengths = lengths_of(sensors, o.dimensions);
    if (core) function.core = lengths.spacing;
    if (radius) function.radius = 2 * lengths.diagonal;
  }
  if (core && !(function.core > 0)) no_length("core");
  if (radius && !(function.radius > 0)) no_length("radius");
  if (function.parameters() > 0 && !(o.rate > 0)) {
    throw ConfigError(
        "rate", fmt::format("[green] expected a rate above 0, got {}", o.rate),
        "it is a diffusivity or a speed");
  }
  std::vector<double> numbers{o.rate};
  numbers.insert(numbers.end(), o.velocity.begin(), o.velocity.end());
  numbers.resize(static_cast<size_t>(function.parameters()));
  parameters = torch::tensor(numbers, torch::kFloat64);
  function.check();
}

Tensor GreenKernel::log_green(const Tensor& dx, const Tensor& dt) const {
  return kernels::log_green(function, parameters, dx, dt);
}

kernels::GreenTerm GreenKernel::term(bool global_query, bool global_key) const {
  return {function, parameters, global_query, global_key};
}

Tensor GreenKernel::logits(const Tensor& queries, const Tensor& keys,
                           bool global_token) const {
  return kernels::green_logits(term(global_token, global_token), queries, keys);
}

}  // namespace propagator::pde
