#include "propagator/data/wake_simulator.h"

namespace propagator::data {
namespace {

// A flow that settles to a steady one, of which few snapshots say all.
std::vector<std::string> steady(const std::string& reynolds, int64_t rings,
                                double outer_radius) {
  return {"wake.reynolds=" + reynolds,
          "wake.perturbation=0",
          fmt::format("wake.rings={}", rings),
          fmt::format("wake.outer_radius={}", outer_radius),
          "wake.modes=48",
          "wake.dt=0.01",
          "wake.start=150",
          "wake.snapshots=20"};
}

}  // namespace

void WakeSimulator::describe(config::Schema& schema) {
  schema.section("wake", options_);
}

Simulated WakeSimulator::simulate(const Runtime& runtime) const {
  const auto data = physics::simulate_wake(options_, runtime.device);
  const auto& n = data.numbers;
  const auto known = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  return {.tensors = {{"x", data.x},
                      {"y", data.y},
                      {"t", data.t},
                      {"u", data.fields.u},
                      {"v", data.fields.v},
                      {"p", data.fields.p}},
          .numbers = {{"reynolds", options_.flow.reynolds},
                      {"viscosity", 1 / options_.flow.reynolds},
                      {"time_step", data.time_step},
                      {"drag", n.drag},
                      {"lift_amplitude", n.lift_amplitude},
                      {"strouhal", known(n.strouhal)},
                      {"periods", n.periods},
                      {"recirculation", known(n.recirculation)},
                      {"drift", n.drift},
                      {"divergence_rms", n.residual.divergence_rms},
                      {"divergence_max", n.residual.divergence_max},
                      {"momentum_residual_rms", n.residual.momentum_rms},
                      {"momentum_residual_max", n.residual.momentum_max}}};
}

std::vector<Validation> WakeSimulator::validations() const {
  const std::string published =
      "published computations; the lower the farther their boundaries are";
  const double far = 60;
  return {
      {.name = "re-100",
       .help = "vortex shedding at Re = 100, the data as they are by default",
       .runs = {{"wake.reynolds=100"}},
       .bands = {{"strouhal", 0.164, 0.167, published},
                 {"drag", 1.32, 1.36, published},
                 {"lift_amplitude", 0.32, 0.34, published},
                 {"drift", 0, 0.01, "a settled flow"},
                 {"divergence_max", 0, 1e-3, "fourth-order differences"},
                 {"momentum_residual_rms", 0, 1e-3,
                  "fourth-order differences"}}},
      {.name = "re-40",
       .help = "steady flow at Re = 40; recirculation from the rear "
               "stagnation point, in diameters",
       .runs = {steady("40", 241, far)},
       .bands = {{"drag", 1.49, 1.56, published},
                 {"recirculation", 2.2, 2.3, published}}},
      {.name = "re-20",
       .help = "steady flow at Re = 20; recirculation as at Re = 40",
       .runs = {steady("20", 241, far)},
       .bands = {{"drag", 2.0, 2.1, published},
                 {"recirculation", 0.90, 0.94, published}}},
      {.name = "refinement",
       .help = "Re = 40 on rings that are each half as far apart",
       .runs = {steady("40", 61, far), steady("40", 121, far),
                steady("40", 241, far)},
       .bands = {{"order_drag", 3.5, 7, "the scheme is of fourth order"},
                 {"order_recirculation", 3.5, 7,
                  "the scheme is of fourth order"}},
       .ratio = 2,
       .refined = {"drag", "recirculation"}},
      {.name = "boundary",
       .help = "Re = 40 with the outer boundary 30, 60, 120, 240 diameters "
               "away: the drag of the unbounded flow is less than that of "
               "small domains",
       .runs = {steady("40", 209, 30), steady("40", 241, 60),
                steady("40", 275, 120), steady("40", 309, 240)},
       .bands = {{"drag", 1.49, 1.56, published}}}};
}

}  // namespace propagator::data
