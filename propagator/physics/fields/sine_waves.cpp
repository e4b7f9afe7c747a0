#include "propagator/physics/fields/sine_waves.h"

#include <numbers>

#include "propagator/core/error.h"
#include "propagator/physics/fields/case_draws.h"

namespace propagator::physics {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// 2π k x + φ, (N, M, X).
torch::Tensor angles(const SineWaves& waves, const torch::Tensor& x) {
  return kTwoPi * waves.mode.unsqueeze(2) * x + waves.phase.unsqueeze(2);
}

}  // namespace

void SineWaveOptions::describe(config::Schema& s) {
  s.field("modes", modes,
          {.help = "highest wave number of the initial sum of sines, in waves "
                   "on the interval",
           .min = 1,
           .max = 1000});
  s.field("drawn", drawn,
          {.help = "waves of the sum, each of a wave number drawn from 1 to "
                   "field.modes; 0: one of every wave number",
           .min = 0,
           .max = 1000});
  s.field("amplitude_min", amplitude_min,
          {.help = "smallest amplitude of a wave", .min = -1e3, .max = 1e3});
  s.field("amplitude_max", amplitude_max,
          {.help = "largest amplitude of a wave", .min = -1e3, .max = 1e3});
  s.field("unit_max", unit_max,
          {.help = "scale initial values to a largest absolute value of 1"});
}

void SineWaveOptions::validate(int64_t points) const {
  expect_rising("field.amplitude_max", amplitude_min, amplitude_max);
  if (amplitude_min == 0 && amplitude_max == 0) {
    throw ConfigError("field.amplitude_max", "expected waves, got none");
  }
  if (2 * modes >= points) {
    throw ConfigError("field.modes",
                      fmt::format("expected less than half of field.points = "
                                  "{}, got {}",
                                  points, modes),
                      "shorter waves need more points");
  }
}

SineWaves SineWaves::draw(const SineWaveOptions& o, const CaseRange& range,
                          int64_t points) {
  const int64_t count = o.waves();
  SineWaves waves{
      .amplitude = CaseDraws(range, "fields/sines/amplitude")
                       .uniform(count, o.amplitude_min, o.amplitude_max),
      .mode = torch::arange(1, count + 1, torch::kFloat64)
                  .expand({range.count, count}),
      .phase =
          CaseDraws(range, "fields/sines/phase").uniform(count, 0, kTwoPi)};
  if (o.drawn > 0) {
    waves.mode = CaseDraws(range, "fields/sines/mode").whole(count, 1, o.modes);
  }
  if (o.unit_max) {
    const auto highest =
        waves.at(periodic_points(0, 1, points)).abs().amax(1, true);
    waves.amplitude = waves.amplitude / highest;
  }
  return waves;
}

torch::Tensor SineWaves::at(const torch::Tensor& x) const {
  return (amplitude.unsqueeze(2) * torch::sin(angles(*this, x))).sum(1);
}

torch::Tensor SineWaves::integral(const torch::Tensor& x) const {
  const auto scale = (amplitude / (-kTwoPi * mode)).unsqueeze(2);
  return (scale * torch::cos(angles(*this, x))).sum(1);
}

SineWaves SineWaves::moved(const torch::Tensor& distance) const {
  auto waves = *this;
  waves.phase = phase - kTwoPi * mode * distance.unsqueeze(1);
  return waves;
}

}  // namespace propagator::physics
