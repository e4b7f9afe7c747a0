#include "propagator/pde/text/sought_range.h"

#include <cmath>

namespace propagator::pde {
namespace {

constexpr double kFarApart = 10;

}  // namespace

SoughtRange::SoughtRange(const Interval& bounds)
    : geometric_(bounds.low > 0 && bounds.high >= kFarApart * bounds.low),
      ends_(bounds) {
  if (geometric_) ends_ = {std::log(bounds.low), std::log(bounds.high)};
}

Jet SoughtRange::operator()(const Jet& z) const {
  const auto inside =
      autodiff::sigmoid(z) * (ends_.high - ends_.low) + ends_.low;
  return geometric_ ? autodiff::exp(inside) : inside;
}

double SoughtRange::at(double z) const {
  const double inside =
      ends_.low + (ends_.high - ends_.low) / (1 + std::exp(-z));
  return geometric_ ? std::exp(inside) : inside;
}

}  // namespace propagator::pde
