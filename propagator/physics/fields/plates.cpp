#include "propagator/physics/fields/plates.h"

#include "propagator/core/error.h"

namespace propagator::physics {
namespace {

// Keys of a plate as they are called here.
std::string as_field_keys(std::string text) {
  const std::string before = "plate.", after = "field.";
  for (auto at = text.find(before); at != std::string::npos;
       at = text.find(before, at + after.size())) {
    text.replace(at, before.size(), after);
  }
  return text;
}

}  // namespace

void Plates::validate() const {
  try {
    plate_.validate();
  } catch (const ConfigError& error) {
    throw ConfigError(as_field_keys(error.key()), as_field_keys(error.what()),
                      as_field_keys(error.hint()));
  }
}

FieldLayout Plates::layout() const {
  const bool scaled = plate_.time_step == TimeStep::kCfl;
  const double step = plate_.step(scaled ? 1 : plate_.alpha_max);
  return {.times = step * torch::arange(plate_.frames, torch::kFloat64),
          .axes = {{"y", points_with_ends(0, plate_.height, plate_.rows),
                    Boundary::kWall},
                   {"x", points_with_ends(0, plate_.width, plate_.cols),
                    Boundary::kWall}},
          .channels = {"T"},
          .parameters = {"alpha"}};
}

FieldCases Plates::solve(const CaseRange& range) const {
  const auto cases = draw_cases(plate_, range.seed, range.first, range.count);
  const auto frames = physics::solve(plate_, cases.to(range.where));
  for (int64_t n = 0; n < plate_.frames; ++n) range.frame_done();
  return {frames.flip(2).unsqueeze(-1), cases.alpha.unsqueeze(1)};
}

torch::Tensor Plates::continued(const torch::Tensor& states,
                                const torch::Tensor& parameters,
                                int64_t count) const {
  auto plate = plate_;
  plate.rows = states.size(1);
  plate.cols = states.size(2);
  plate.frames = count + 1;
  const auto alpha = parameters.select(1, 0).to(torch::kCPU, torch::kFloat64);
  auto dt = alpha.clone();
  // The same steps as on the grid of the keys, which is the finest.
  for (int64_t n = 0; n < dt.size(0); ++n) {
    dt[n] = plate_.step(alpha[n].item<double>());
  }
  const PlateCases cases{states.select(3, 0).flip(1),
                         alpha.to(states.options()), dt.to(states.options())};
  return physics::solve(plate, cases).narrow(1, 1, count).flip(2).unsqueeze(-1);
}

std::map<std::string, double> Plates::assess(const CaseRange& range,
                                             const FieldCases& found,
                                             FieldCheck) const {
  const auto one = range.one();
  const auto cases = draw_cases(plate_, one.seed, one.first, 1);
  const auto again = solve_with_tensors(plate_, cases).flip(2).unsqueeze(-1);
  const auto values =
      found.values.narrow(0, 0, 1).to(torch::kCPU, torch::kFloat64);
  const auto first = values.select(1, 0);
  const auto above = values.max() - first.max(),
             below = first.min() - values.min();
  return {{"tensor_error", relative_l2(values, again)},
          {"maximum_principle", torch::maximum(above, below).item<double>()}};
}

}  // namespace propagator::physics
