#include "propagator/data/simulator.h"

#include "propagator/data/wake_simulator.h"

namespace propagator::data {

const Kinds<Simulator>& simulators() {
  static const Kinds<Simulator> all{
      {"wake",
       {"flow past a circular cylinder: velocity and pressure in its wake",
        [] { return std::make_unique<WakeSimulator>(); }}}};
  return all;
}

}  // namespace propagator::data
