#include "propagator/tasks/density/uniform_prior.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"

namespace propagator::tasks {

using torch::Tensor;

namespace {

// Draws stay off the edges by this share of the range, or float32 may round
// them onto one, where no density is.
constexpr double kOffEdge = 1e-6;
// The least width, as a share of the numbers themselves.
constexpr double kLeastWidth = 1e-3;

}  // namespace

UniformPrior::UniformPrior(std::vector<Range> ranges)
    : ranges_(std::move(ranges)) {
  for (const auto& [low, high, key] : ranges_) {
    if (!(low < high)) {
      throw ConfigError(
          key, fmt::format("expected more than {}, the other end, got {}", low,
                           high));
    }
    const double size = std::max(std::abs(low), std::abs(high));
    if (high - low < kLeastWidth * size) {
      throw ConfigError(key,
                        fmt::format("{} and {} are too close to learn what is "
                                    "between them",
                                    low, high),
                        "a wider range leaves something unknown");
    }
  }
}

std::vector<double> UniformPrior::draw(const RandomStream& stream,
                                       int64_t row) const {
  std::vector<double> x;
  for (const auto& [low, high, key] : ranges_) {
    const double u = stream.uniform(row, std::ssize(x));
    x.push_back(low + (high - low) * (kOffEdge + (1 - 2 * kOffEdge) * u));
  }
  return x;
}

Tensor UniformPrior::confine(const Tensor& x, double share) const {
  std::vector<Tensor> columns;
  for (const auto& [low, high, key] : ranges_) {
    const double off = share * (high - low);
    columns.push_back(
        x.select(1, std::ssize(columns)).clamp(low + off, high - off));
  }
  return torch::stack(columns, 1);
}

Tensor UniformPrior::inside(const Tensor& x) const {
  auto all = torch::ones({x.size(0)}, torch::kBool);
  for (size_t d = 0; d < ranges_.size(); ++d) {
    const auto column = x.select(1, static_cast<int64_t>(d));
    all = all & (column > ranges_[d].low) & (column < ranges_[d].high);
  }
  return all;
}

double UniformPrior::log_density() const {
  double sum = 0;
  for (const double width : widths()) sum -= std::log(width);
  return sum;
}

nn::Supports UniformPrior::supports() const {
  std::vector<nn::Support> all;
  for (const auto& [low, high, key] : ranges_) {
    all.push_back({nn::Support::Kind::kBetween, low, high});
  }
  return nn::Supports(std::move(all));
}

std::vector<double> UniformPrior::widths() const {
  std::vector<double> all;
  for (const auto& [low, high, key] : ranges_) all.push_back(high - low);
  return all;
}

}  // namespace propagator::tasks
