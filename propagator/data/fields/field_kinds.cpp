#include "propagator/data/fields/field_simulator.h"
#include "propagator/physics/fields/advection.h"
#include "propagator/physics/fields/blobs.h"
#include "propagator/physics/fields/heat_fields.h"

namespace propagator::data {
namespace {

const char* const kRounding = "rounding in float64";

std::vector<Validation> advection_rows() {
  return {{.name = "shift",
           .help = "41 frames of waves against their closed form, at another "
                   "phase",
           .runs = {{"field.cases=1", "field.speed_min=0.37",
                     "field.speed_max=0.37"}},
           .bands = {{"shift_error", 0, 1e-12, kRounding},
                     {"mean_drift", 0, 1e-12, kRounding}}}};
}

std::vector<Validation> blob_rows() {
  return {{.name = "shift",
           .help = "the last frame against the first one shifted in Fourier "
                   "space",
           .runs = {{"field.cases=1", "field.width_min=0.06",
                     "field.width_max=0.06"}},
           .bands = {{"shift_error", 0, 1e-6,
                      "what waves beyond the grid have of a Gaussian 1.92 "
                      "points wide, e^{-(1.92 pi)^2 / 2}, is 1.3e-8"},
                     {"mass_drift", 0, 1e-12, kRounding}}}};
}

std::vector<Validation> heat_rows() {
  const auto run = [](int64_t dims, int64_t points) {
    return std::vector<std::string>{"field.cases=1",
                                    "field.check=full",
                                    "field.modes=3",
                                    "field.boundary_modes=2",
                                    "field.diffusivity_min=0.02",
                                    "field.diffusivity_max=0.02",
                                    fmt::format("field.dims={}", dims),
                                    fmt::format("field.points={}", points)};
  };
  const Band faces{"face_drift", 0, 1e-12, kRounding};
  const Band order{"order_explicit_error", 1.7, 2.3,
                   "second differences are of second order"};
  return {{.name = "explicit-2d",
           .help = "the closed form against explicit Euler and second "
                   "differences on three grids",
           .runs = {run(2, 17), run(2, 33), run(2, 65)},
           .bands = {faces, order},
           .ratio = 2,
           .refined = {"explicit_error"}},
          {.name = "explicit-3d",
           .help = "the same in a cube",
           .runs = {run(3, 9), run(3, 17), run(3, 33)},
           .bands = {faces, order},
           .ratio = 2,
           .refined = {"explicit_error"}}};
}

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
                             1000, advection_rows)},
      {"blobs",
       field_kind<Blobs>("Gaussians that a constant wind carries over a "
                         "periodic square, exact",
                         1000, blob_rows)},
      {"heat-fields",
       field_kind<HeatFields>("heat in a square or cube with random initial "
                              "values and random temperatures on the faces, "
                              "exact",
                              100, heat_rows)},
  };
}

}  // namespace propagator::data
