#include "propagator/data/fields/field_simulator.h"
#include "propagator/data/fields/field_validations.h"
#include "propagator/physics/fields/advection.h"
#include "propagator/physics/fields/blobs.h"
#include "propagator/physics/fields/burgers.h"
#include "propagator/physics/fields/heat_fields.h"
#include "propagator/physics/fields/plates.h"
#include "propagator/physics/fields/reaction_diffusion.h"
#include "propagator/physics/fields/shallow_water.h"
#include "propagator/physics/fields/vorticity.h"

namespace propagator::data {
namespace {

// So many cases of a problem, unless a key says otherwise.
template <class Problem>
Kind<Simulator> field_kind(const char* help, int64_t cases,
                           std::vector<Validation> (*rows)()) {
  return {help, [=] {
            return std::make_unique<FieldSimulator>(std::make_unique<Problem>(),
                                                    cases, rows());
          }};
}

}  // namespace

Kinds<Simulator> field_simulators() {
  using namespace physics;
  return {
      {"advection",
       field_kind<Advection>("waves that travel along a periodic line: "
                             "u_t + beta u_x = 0, exact",
                             1000, advection_validations)},
      {"blobs",
       field_kind<Blobs>("Gaussians that a constant wind carries over a "
                         "periodic square, exact",
                         1000, blobs_validations)},
      {"burgers",
       field_kind<Burgers>("waves that steepen to shocks on a periodic line: "
                           "u_t + u u_x = nu/pi u_xx, exact",
                           1000, burgers_validations)},
      {"diffusion-reaction",
       field_kind<DiffusionReaction>(
           "two substances that diffuse and react in a closed square, from "
           "noise",
           100, diffusion_reaction_validations)},
      {"gray-scott",
       field_kind<GrayScott>("two substances that feed on one another and form "
                             "patterns on a periodic square",
                             20, gray_scott_validations)},
      {"heat-fields",
       field_kind<HeatFields>("heat in a square or cube with random initial "
                              "values and random temperatures on the faces, "
                              "exact",
                              100, heat_fields_validations)},
      {"plates",
       field_kind<Plates>("the heated plates of the task forecast, as fields "
                          "for networks of any field",
                          2000, plates_validations)},
      {"shallow-water",
       field_kind<ShallowWater>("columns of water that break down: height and "
                                "momentum on a square",
                                100, shallow_water_validations)},
      {"vorticity",
       field_kind<Vorticity>("a forced plane flow on a torus, by its vorticity",
                             100, vorticity_validations)},
  };
}

}  // namespace propagator::data
