#include "propagator/tasks/density/targets.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;
using enum TargetName;

constexpr double kRadii[] = {1.5, 3};
constexpr double kThickness = 0.15;  // standard deviation of a ring's radius
constexpr double kBoard = 4;         // fields along an edge, of length 2 each
constexpr double kChainWidth = 0.3;

double normal_entropy(double width) {
  return 0.5 * std::log(2 * std::numbers::pi * std::numbers::e) +
         std::log(width);
}

Tensor normal_density_log(const Tensor& x, double width) {
  return -0.5 * (x / width).square() - 0.5 * std::log(2 * std::numbers::pi) -
         std::log(width);
}

// log of the density of the radius. So thin a ring does not reach the origin.
Tensor ring_log_density(const Tensor& radius) {
  return torch::logaddexp(normal_density_log(radius - kRadii[0], kThickness),
                          normal_density_log(radius - kRadii[1], kThickness)) -
         std::log(2.0);
}

double ring_entropy() {
  const auto r = torch::linspace(0.1, 5, 50001, torch::kFloat64);
  const auto log_p = ring_log_density(r);
  const auto log_q = log_p - torch::log(2 * std::numbers::pi * r);
  return -torch::trapezoid(log_p.exp() * log_q, r).item<double>();
}

// Where variable d of a chain is, by those before it.
Tensor chain_mean(const Tensor& x, int64_t d) {
  auto mean = torch::sin(2 * x.select(1, d - 1));
  if (d > 1) mean = mean + 0.5 * torch::cos(x.select(1, d - 2));
  return mean;
}

Tensor sample_chain(int64_t variables, const Tensor& noise) {
  auto x = noise.clone();
  for (int64_t d = 1; d < variables; ++d) {
    x.select(1, d).copy_(chain_mean(x, d) + kChainWidth * noise.select(1, d));
  }
  return x;
}

Tensor chain_log_density(const Tensor& x) {
  auto sum = normal_density_log(x.select(1, 0), 1);
  for (int64_t d = 1; d < x.size(1); ++d) {
    sum = sum +
          normal_density_log(x.select(1, d) - chain_mean(x, d), kChainWidth);
  }
  return sum;
}

Tensor sample_rings(const Tensor& uniform, const Tensor& noise) {
  const auto outer = uniform.select(1, 0) < 0.5;
  const auto radius = torch::where(outer, kRadii[1], kRadii[0]) +
                      kThickness * noise.select(1, 0);
  const auto angle = 2 * std::numbers::pi * uniform.select(1, 1);
  return torch::stack({radius * torch::cos(angle), radius * torch::sin(angle)},
                      1);
}

// The field (i, j) is a part of it if i + j is even.
Tensor sample_board(const Tensor& uniform) {
  const auto x = kBoard * uniform.select(1, 0);
  const auto half = kBoard / 2 * uniform.select(1, 1);
  const auto y =
      2 * half.floor() + torch::remainder(x.floor(), 2) + (half - half.floor());
  return 2 * torch::stack({x, y}, 1) - kBoard;
}

Tensor board_log_density(const Tensor& x) {
  const auto field = ((x + kBoard) / 2).floor();
  const auto inside = ((field >= 0) & (field < kBoard)).all(1) &
                      (torch::remainder(field.sum(1), 2) == 0);
  const auto none = torch::full({x.size(0)}, -INFINITY, x.options());
  return torch::where(inside, torch::full_like(none, -std::log(32.0)), none);
}

}  // namespace

void TargetOptions::describe(config::Schema& s) {
  s.field("name", name,
          {.help = "a known distribution to draw samples of, in place of a "
                   "data.file"});
  s.field("variables", variables,
          {.help = "variables of a chain", .min = 2, .max = 1000});
}

Target::Target(const TargetOptions& options) : options_(options) {
  if (options.name != kNone) return;
  throw ConfigError("target.name", "there is nothing to learn from",
                    "name a target, such as target.name=lecture, or a table of "
                    "your own with data.file and data.variables");
}

std::vector<std::string> Target::names() const {
  const int64_t count = options_.name == kChain ? options_.variables : 2;
  std::vector<std::string> names;
  for (int64_t d = 1; d <= count; ++d) names.push_back(fmt::format("x{}", d));
  return names;
}

Tensor Target::sample(int64_t count, const RandomStream& stream) const {
  const auto variables = std::ssize(names());
  const auto both = stream.normal({count, 2 * variables});
  const auto noise = both.narrow(1, 0, variables);
  // Each of the others makes a uniform number.
  const auto uniform = 0.5 * torch::erfc(both.narrow(1, variables, variables) /
                                         std::numbers::sqrt2);
  switch (options_.name) {
    case kLecture: {
      const auto x2 = 2 * noise.select(1, 1);
      return torch::stack({0.25 * x2.square() + noise.select(1, 0), x2}, 1);
    }
    case kRings:
      return sample_rings(uniform, noise);
    case kCheckerboard:
      return sample_board(uniform);
    default:
      return sample_chain(variables, noise);
  }
}

Tensor Target::log_prob(const Tensor& x) const {
  switch (options_.name) {
    case kLecture:
      return normal_density_log(x.select(1, 1), 2) +
             normal_density_log(x.select(1, 0) - 0.25 * x.select(1, 1).square(),
                                1);
    case kRings: {
      const auto radius = x.norm(2, 1);
      return ring_log_density(radius) -
             torch::log(2 * std::numbers::pi * radius);
    }
    case kCheckerboard:
      return board_log_density(x);
    default:
      return chain_log_density(x);
  }
}

double Target::entropy() const {
  switch (options_.name) {
    case kLecture:
      return normal_entropy(2) + normal_entropy(1);
    case kRings:
      return ring_entropy();
    case kCheckerboard:
      return std::log(32.0);
    default:
      return normal_entropy(1) + static_cast<double>(options_.variables - 1) *
                                     normal_entropy(kChainWidth);
  }
}

Target::Window Target::window() const {
  switch (options_.name) {
    case kLecture:
      return {{-4, 10}, {-7, 7}};
    case kRings:
      return {{-4, 4}, {-4, 4}};
    case kCheckerboard:
      return {{-4.5, 4.5}, {-4.5, 4.5}};
    default:
      return {{-3.5, 3.5}, {-3.5, 3.5}};
  }
}

}  // namespace propagator::tasks
