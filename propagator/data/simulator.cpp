#include "propagator/data/simulator.h"

#include "propagator/data/fields/field_simulator.h"
#include "propagator/data/wake_cycles_simulator.h"
#include "propagator/data/wake_simulator.h"

namespace propagator::data {

nlohmann::json Simulator::write(const std::filesystem::path& out,
                                const Runtime& runtime,
                                const Note& note) const {
  const auto simulated = simulate(runtime);
  save_tensors(out, {simulated.tensors, note(simulated)});
  return simulated.numbers;
}

const Kinds<Simulator>& simulators() {
  static const Kinds<Simulator> all = [] {
    auto kinds = field_simulators();
    kinds["wake"] = {
        "flow past a circular cylinder: velocity and pressure in its wake",
        [] { return std::make_unique<WakeSimulator>(); }};
    kinds["wake-cycles"] = {
        "periodic flow past a circular cylinder over a range of Re: mean and "
        "harmonics of its velocity",
        [] { return std::make_unique<WakeCyclesSimulator>(); }};
    return kinds;
  }();
  return all;
}

}  // namespace propagator::data
