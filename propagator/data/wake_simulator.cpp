#include "propagator/data/wake_simulator.h"

namespace propagator::data {
namespace {

using Settings = std::vector<std::string>;

// A flow that settles to a steady one, of which few snapshots say all.
Settings steady(int64_t reynolds, const Settings& more) {
  Settings all{fmt::format("wake.reynolds={}", reynolds), "wake.perturbation=0",
               "wake.dt=0.01", "wake.snapshots=20"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Re = 40 on few modes, so many rings, and a domain of such a radius.
Settings small_steady(int64_t rings, int64_t radius, int64_t start) {
  return steady(40, {"wake.modes=32", "wake.sponge_radius=9",
                     fmt::format("wake.rings={}", rings),
                     fmt::format("wake.outer_radius={}", radius),
                     fmt::format("wake.start={}", start)});
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
                      {"t", data.t - data.t[0]},
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
      "published computations, most with boundaries some tens of diameters "
      "away, which raise drag and lift";
  const Settings fine{"wake.modes=48", "wake.rings=241", "wake.start=150"};
  return {
      {.name = "re-100",
       .help = "vortex shedding at Re = 100, the data as they are by default",
       .runs = {{"wake.reynolds=100"}},
       .bands = {{"strouhal", 0.164, 0.167, published},
                 {"drag", 1.33, 1.36, published},
                 {"lift_amplitude", 0.32, 0.34, published},
                 {"drift", 0, 0.01, "a settled flow"},
                 {"divergence_rms", 0, 1e-3, "fourth-order differences"},
                 {"momentum_residual_rms", 0, 1e-3,
                  "a thousandth of U²/D, the size of its terms"}}},
      {.name = "re-40",
       .help = "steady flow at Re = 40; recirculation from the rear "
               "stagnation point, in diameters",
       .runs = {steady(40, fine)},
       .bands = {{"drag", 1.52, 1.56, published},
                 {"recirculation", 2.2, 2.3, published}}},
      {.name = "re-20",
       .help = "steady flow at Re = 20; recirculation as at Re = 40",
       .runs = {steady(20, fine)},
       .bands = {{"drag", 2.0, 2.1, published},
                 {"recirculation", 0.92, 0.94, published}}},
      {.name = "refinement",
       .help = "Re = 40 on rings that are each half as far apart, in a domain "
               "of 20 diameters",
       .runs = {small_steady(61, 20, 40), small_steady(121, 20, 40),
                small_steady(241, 20, 40)},
       .bands = {{"order_drag", 3.5, 7, "the scheme is of fourth order"}},
       .ratio = 2,
       .refined = {"drag", "recirculation"}},
      {.name = "boundary",
       .help = "Re = 40 with the outer boundary 20, 60 and 180 diameters "
               "away, and rings as far apart: a near one raises the drag",
       .runs = {small_steady(185, 20, 100), small_steady(240, 60, 100),
                small_steady(295, 180, 100)},
       .bands = {{"drag", 1.52, 1.56, published}}}};
}

}  // namespace propagator::data
