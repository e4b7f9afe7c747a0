#pragma once

#include <cstdint>
#include <string>

#include "propagator/core/config.h"
#include "propagator/core/device.h"

namespace propagator::train {

// Why a method over all training cases stopped for good; kNone: it did not.
enum class DescentStop {
  kNone,
  kGradient,
  kChange,
  kLineSearch,
  kNotDescent,
  kNotFinite,
  kTooLarge
};
// A sentence.
// `precision`: of the products that the loss is made of.
std::string reason(DescentStop stop, Precision precision = Precision::kFloat32);

// What a step of such a method came to.
struct DescentOutcome {
  double loss = 0;
  double gradient_norm = 0;
  int64_t iterations = 0, evaluations = 0;  // of this step
  DescentStop stop = DescentStop::kNone;
};

}  // namespace propagator::train

namespace propagator::config {

template <>
struct Names<train::DescentStop> {
  using enum train::DescentStop;
  static constexpr std::pair<train::DescentStop, const char*> all[] = {
      {kNone, "none"},
      {kGradient, "gradient"},
      {kChange, "change"},
      {kLineSearch, "line-search"},
      {kNotDescent, "not-descent"},
      {kNotFinite, "not-finite"},
      {kTooLarge, "too-large"}};
};

}  // namespace propagator::config
