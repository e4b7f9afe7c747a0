#include "propagator/physics/fields/blobs.h"

#include <torch/fft.h>

#include <numbers>

#include "propagator/physics/fields/case_draws.h"

namespace propagator::physics {
namespace {

// Images on each side: the last one is 2.5 lengths away, ten widths or more.
constexpr int64_t kImages = 3;

// Of Gaussians at `centre` (N, M) with `width` (N, M), periodic: (N, M, X).
torch::Tensor periodic_bells(const torch::Tensor& centre,
                             const torch::Tensor& width,
                             const torch::Tensor& x) {
  const auto away = x - centre.unsqueeze(2);
  const auto nearest = away - torch::round(away);
  auto bells = torch::zeros_like(nearest);
  for (int64_t image = -kImages; image <= kImages; ++image) {
    const auto scaled =
        (nearest + static_cast<double>(image)) / width.unsqueeze(2);
    bells += torch::exp(-0.5 * scaled.square());
  }
  return bells;
}

}  // namespace

void Blobs::describe(config::Schema& s) {
  s.field("points", points_,
          {.help = "points along each axis",
           .min = 8,
           .max = 4096,
           .memory = true});
  times_.describe(s);
  s.field("blobs_min", blobs_min_,
          {.help = "fewest Gaussians of a case", .min = 1, .max = 100});
  s.field("blobs_max", blobs_max_,
          {.help = "most Gaussians of a case", .min = 1, .max = 100});
  s.field("speed", speed_,
          {.help = "largest speed along each axis, either way",
           .unit = "side/time",
           .min = 0,
           .max = 1e3});
  const auto width = [&](const char* name, double& value, const char* help) {
    s.field(name, value,
            {.help = help, .unit = "side", .min = 1e-3, .max = 0.25});
  };
  width("width_min", width_min_, "smallest standard deviation of a Gaussian");
  width("width_max", width_max_, "largest standard deviation of a Gaussian");
  s.field("amplitude_min", amplitude_min_,
          {.help = "lowest height of a Gaussian", .min = -1e3, .max = 1e3});
  s.field("amplitude_max", amplitude_max_,
          {.help = "highest height of a Gaussian", .min = -1e3, .max = 1e3});
}

void Blobs::validate() const {
  expect_rising("field.blobs_max", static_cast<double>(blobs_min_),
                static_cast<double>(blobs_max_));
  expect_rising("field.width_max", width_min_, width_max_);
  expect_rising("field.amplitude_max", amplitude_min_, amplitude_max_);
}

FieldLayout Blobs::layout() const {
  const auto points = periodic_points(0, 1, points_);
  return {.times = times_.at(),
          .axes = {{"x", points, Boundary::kPeriodic},
                   {"y", points, Boundary::kPeriodic}},
          .channels = {"density"},
          .parameters = {"velocity_x", "velocity_y"}};
}

torch::Tensor Blobs::continued(const torch::Tensor& states,
                               const torch::Tensor& parameters,
                               int64_t count) const {
  const std::vector<int64_t> points{states.size(1), states.size(2)};
  const auto spectrum = torch::fft::rfft2(states.select(3, 0));
  const double turn = 2 * std::numbers::pi;
  const auto x = turn * static_cast<double>(points[0]) *
                 torch::fft::fftfreq(points[0], torch::kFloat64);
  const auto y = turn * torch::arange(points[1] / 2 + 1, torch::kFloat64);
  const auto velocity = parameters.to(torch::kCPU, torch::kFloat64);
  const auto along = [&](int64_t axis) {
    return velocity.select(1, axis).view({-1, 1, 1}) * times_.step();
  };
  const auto each = along(0) * x.unsqueeze(1) + along(1) * y;  // (N, X, Y/2+1)
  std::vector<torch::Tensor> all;
  for (int64_t n = 1; n <= count; ++n) {
    const auto angle = -static_cast<double>(n) * each;
    const auto turned = torch::polar(torch::ones_like(angle), angle)
                            .to(spectrum.device())
                            .to(spectrum.scalar_type());
    all.push_back(torch::fft::irfft2(spectrum * turned, points));
  }
  return torch::stack(all, 1).unsqueeze(-1);
}

FieldCases Blobs::solve(const CaseRange& range) const {
  const auto draws = [&](const char* name) { return CaseDraws(range, name); };
  const auto velocity =
      draws("fields/blobs/velocity").uniform(2, -speed_, speed_);
  const int64_t most = blobs_max_;
  const auto count =
      draws("fields/blobs/count").whole(1, blobs_min_, blobs_max_);
  const auto there = torch::arange(most, torch::kFloat64) < count;  // (N, M)
  const auto height =
      there * draws("fields/blobs/amplitude")
                  .uniform(most, amplitude_min_, amplitude_max_);
  const auto width =
      draws("fields/blobs/width").uniform(most, width_min_, width_max_);
  const auto centre = draws("fields/blobs/centre").uniform(2 * most, 0, 1);
  const auto times = times_.at();
  const auto there_too = [&](const torch::Tensor& drawn) {
    return drawn.to(range.where.device());
  };
  const auto x = there_too(periodic_points(0, 1, points_));
  const auto widths = there_too(width), heights = there_too(height);
  auto values = torch::empty({range.count, times_.frames, points_, points_, 1},
                             range.where);
  for (int64_t n = 0; n < times_.frames; ++n) {
    const auto moved = velocity * times[n];
    const auto bells = [&](int64_t axis) {
      const auto now =
          centre.narrow(1, axis * most, most) + moved.narrow(1, axis, 1);
      return periodic_bells(there_too(now), widths, x);
    };
    const auto along_x = heights.unsqueeze(2) * bells(0);  // (N, M, X)
    values.select(1, n).select(3, 0).copy_(
        torch::matmul(along_x.transpose(1, 2), bells(1)));
    range.frame_done();
  }
  return {values, velocity};
}

std::map<std::string, double> Blobs::assess(const CaseRange&,
                                            const FieldCases& found,
                                            FieldCheck) const {
  const auto frames =
      found.values[0].select(3, 0).cpu().to(torch::kFloat64);  // (T, X, Y)
  // The last frame again: the first one shifted in Fourier space.
  const double pi = std::numbers::pi;
  const auto spectrum = torch::fft::fft2(frames[0]);
  const auto k = 2 * pi * torch::fft::fftfreq(points_, torch::kFloat64) *
                 static_cast<double>(points_);
  const auto moved = found.parameters[0] * times_.end;
  const auto angle = -(k.unsqueeze(1) * moved[0] + k * moved[1]);
  const auto shifted = torch::real(torch::fft::ifft2(
      spectrum * torch::polar(torch::ones_like(angle), angle)));
  return {{"shift_error", relative_l2(frames[-1], shifted)},
          {"mass_drift", largest_drift(frames.unsqueeze(0))}};
}

}  // namespace propagator::physics
