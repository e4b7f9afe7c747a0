#include "propagator/data/fields/field_validations.h"

namespace propagator::data {
namespace {

using Keys = std::vector<std::string>;

const char* const kRounding = "rounding in float64";
const char* const kFourth = "exponential Runge-Kutta is of fourth order";
const char* const kStepping = "a thousandth of the error of the best forecasts";

// One case with these keys of the section `field`.
Keys one_case(const Keys& keys, const Keys& more = {}) {
  Keys all{"field.cases=1"};
  for (const auto& list : {keys, more}) {
    for (const auto& key : list) all.push_back("field." + key);
  }
  return all;
}

// The same with each value of a key.
std::vector<Keys> each(const Keys& keys, const char* name,
                       const std::vector<int64_t>& values) {
  std::vector<Keys> runs;
  for (const int64_t value : values) {
    runs.push_back(one_case(keys, {fmt::format("{}={}", name, value)}));
  }
  return runs;
}

}  // namespace

std::vector<Validation> advection_validations() {
  return {{.name = "shift",
           .help = "41 frames of waves against their closed form, at another "
                   "phase",
           .runs = {one_case({"speed_min=0.37", "speed_max=0.37"})},
           .bands = {{"shift_error", 0, 1e-12, kRounding},
                     {"mean_drift", 0, 1e-12, kRounding}}}};
}

std::vector<Validation> blobs_validations() {
  return {{.name = "shift",
           .help = "the last frame against the first one shifted in Fourier "
                   "space",
           .runs = {one_case({"width_min=0.06", "width_max=0.06"})},
           .bands = {{"shift_error", 0, 1e-6,
                      "what waves beyond the grid have of a Gaussian 1.92 "
                      "points wide, e^{-(1.92 pi)^2 / 2}, is 1.3e-8"},
                     {"mass_drift", 0, 1e-12, kRounding}}}};
}

std::vector<Validation> heat_fields_validations() {
  const Keys keys{"check=full", "modes=3", "boundary_modes=2",
                  "diffusivity_min=0.02", "diffusivity_max=0.02"};
  const auto in = [&](const char* dims) {
    auto all = keys;
    all.push_back(dims);
    return all;
  };
  const Band faces{"face_drift", 0, 1e-12, kRounding};
  const Band order{"order_explicit_error", 1.7, 2.3,
                   "second differences are of second order"};
  return {{.name = "explicit-2d",
           .help = "the closed form against explicit Euler and second "
                   "differences on three grids",
           .runs = each(in("dims=2"), "points", {17, 33, 65}),
           .bands = {faces, order},
           .ratio = 2,
           .refined = {"explicit_error"}},
          {.name = "explicit-3d",
           .help = "the same in a cube",
           .runs = each(in("dims=3"), "points", {9, 17, 33}),
           .bands = {faces, order},
           .ratio = 2,
           .refined = {"explicit_error"}}};
}

std::vector<Validation> plates_validations() {
  return {{.name = "euler",
           .help = "explicit Euler node by node against whole frames at a time",
           .runs = {one_case({"rows=26", "cols=26", "frames=401"})},
           .bands = {{"tensor_error", 0, 1e-12, kRounding},
                     {"maximum_principle", 0, 1e-12,
                      "no node leaves the range of the first frame"}}}};
}

std::vector<Validation> burgers_validations() {
  const auto both = [](const char* viscosity, const char* refine) {
    return std::vector<Keys>{one_case({"check=full", "points=128", "frames=11",
                                       "time=1", viscosity, refine})};
  };
  const Band spacing{"exact_error", 0, 1e-9,
                     "the trapezoidal rule of twice as many points, which "
                     "leaves e^{-2 pi^2 1.6^2}"};
  const Band mean{"mean_drift", 0, 1e-6,
                  "the sum over points of a shock that they hardly resolve"};
  const Band steps{"spectral_error", 0, 1e-6, kStepping};
  return {
      {.name = "nu-0.1",
       .help = "Cole and Hopf by the heat equation, against Fourier steps",
       .runs = both("viscosity=0.1", "refine=4"),
       .bands = {spacing, mean, steps}},
      {.name = "nu-0.01",
       .help = "Cole and Hopf by the integral, against Fourier steps",
       .runs = both("viscosity=0.01", "refine=16"),
       .bands = {spacing, steps}},
      {.name = "nu-0.001",
       .help = "the sharpest shocks of the benchmark, at two spacings of the "
               "integral",
       .runs = {one_case({"viscosity=0.001", "frames=5"})},
       .bands = {spacing}},
      {.name = "decay",
       .help = "a wave so weak that it decays as heat does, by Fourier steps "
               "against Cole and Hopf",
       .runs = {one_case({"check=full", "viscosity=0.1", "points=64",
                          "amplitude_min=1e-6", "amplitude_max=1e-6",
                          "refine=1"})},
       .bands = {{"spectral_error", 0, 1e-9, kRounding}}}};
}

std::vector<Validation> diffusion_reaction_validations() {
  const Keys small{"points=32", "frames=3", "time=1"};
  auto full = small;
  full.insert(full.end(), {"check=full", "laplacian=differences", "steps=50"});
  auto smooth = small;
  smooth.push_back("initial=smooth");
  return {{.name = "explicit",
           .help = "noise in each cell against the classical explicit method "
                   "of fourth order",
           .runs = {one_case(full)},
           .bands = {{"explicit_error", 0, 1e-6, kStepping},
                     {"step_error", 0, 1e-6, kStepping}}},
          {.name = "steps",
           .help = "mean square at the last time with 5, 10 and 20 steps from "
                   "frame to frame",
           .runs = each(smooth, "steps", {5, 10, 20}),
           .bands = {{"order_last_mean_square", 3.5, 4.5, kFourth}},
           .ratio = 2,
           .refined = {"last_mean_square"}}};
}

std::vector<Validation> gray_scott_validations() {
  const Keys small{"points=64", "frames=6", "time=200"};
  return {{.name = "explicit",
           .help = "spots against the classical explicit method of fourth "
                   "order",
           .runs = {one_case(small, {"check=full", "steps=40"})},
           .bands = {{"explicit_error", 0, 1e-6, kStepping},
                     {"step_error", 0, 1e-6, kStepping}}},
          {.name = "steps",
           .help = "mean square at the last time with 8, 16 and 32 steps from "
                   "frame to frame",
           .runs = each(small, "steps", {8, 16, 32}),
           .bands = {{"order_last_mean_square", 3.5, 4.5, kFourth}},
           .ratio = 2,
           .refined = {"last_mean_square"}}};
}

std::vector<Validation> vorticity_validations() {
  const Keys random{"points=64",          "time=5",
                    "frames=6",           "modes=8",
                    "variance=2000",      "viscosity_min=0.002",
                    "viscosity_max=0.002"};
  return {{.name = "taylor-green",
           .help = "decaying vortices against their closed form",
           .runs = {one_case({"points=32", "initial=taylor-green", "vortices=2",
                              "forcing=0", "time=5", "frames=6", "steps=20"})},
           .bands = {{"taylor_green_error", 0, 1e-11, kRounding},
                     {"mean_drift", 0, 1e-12, kRounding}}},
          {.name = "grid",
           .help = "a random flow against itself on twice as many points and "
                   "steps",
           .runs = {one_case(random, {"check=full", "steps=100"})},
           .bands = {{"grid_error", 0, 1e-3,
                      "a tenth of the error of the best forecasts, or less"},
                     {"step_error", 0, 1e-6, kStepping},
                     {"mean_drift", 0, 1e-12, kRounding}}},
          {.name = "steps",
           .help = "mean square at the last time with 10, 20 and 40 steps "
                   "from frame to frame",
           .runs = each(random, "steps", {10, 20, 40}),
           .bands = {{"order_last_mean_square", 3.5, 4.5, kFourth}},
           .ratio = 2,
           .refined = {"last_mean_square"}}};
}

std::vector<Validation> shallow_water_validations() {
  const Keys planar{"initial=planar", "points_y=4", "frames=2"};
  return {{.name = "still",
           .help = "water at rest between walls",
           .runs = {one_case(
               {"points=32", "frames=5", "initial=still", "boundary=wall"})},
           .bands = {{"still_error", 0, 1e-13, kRounding}}},
          {.name = "mass",
           .help = "a round column between walls, until its waves have come "
                   "back",
           .runs = {one_case(
               {"points=64", "frames=11", "time=8", "boundary=wall"})},
           .bands = {{"mass_drift", 0, 1e-12, kRounding}}},
          {.name = "dam-break",
           .help = "a planar dam against the exact solution of its Riemann "
                   "problem, on three grids",
           .runs = each(planar, "points", {128, 256, 512}),
           .bands = {{"middle_height_error", 0, 1e-3,
                      "the state between the waves is constant"},
                     {"middle_speed_error", 0, 1e-3,
                      "the state between the waves is constant"},
                     {"order_l1_error", 0.7, 1.3,
                      "a shock is some cells wide: first order"}},
           .ratio = 2,
           .refined = {"l1_error"}}};
}

}  // namespace propagator::data
