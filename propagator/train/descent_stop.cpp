#include "propagator/train/descent_stop.h"

#include <fmt/format.h>

namespace propagator::train {
namespace {

const char* way_on(Precision precision) {
  switch (precision) {
    case Precision::kFloat64:
      return "";
    case Precision::kFloat32:
      return " (in fp32; resumed in fp64 it goes further)";
    default:
      return " (fp32 goes further)";
  }
}

}  // namespace

std::string reason(DescentStop stop, Precision precision) {
  switch (stop) {
    case DescentStop::kNone:
      return "it has not stopped";
    case DescentStop::kGradient:
      return "no component of the gradient is above the tolerance";
    case DescentStop::kChange:
      return "the loss or the parameters change by less than the tolerance";
    case DescentStop::kLineSearch:
      return fmt::format(
          "no step lowers the loss, not even a small one against the gradient: "
          "rounding hides what is left{}, or the gradient is wrong",
          way_on(precision));
    case DescentStop::kNotDescent:
      return "the gradient is too small to give a direction of descent";
    case DescentStop::kNotFinite:
      return "the loss or its gradient is not finite at every point tried";
    case DescentStop::kTooLarge:
      return "the gradient is so large that its square overflows: the loss "
             "needs smaller weights or units";
  }
  return "?";
}

}  // namespace propagator::train
