#include "propagator/tasks/density/vertex_inference.h"

#include <fmt/format.h>

#include <limits>

#include "propagator/core/error.h"
#include "propagator/physics/detector/event_fit.h"

namespace propagator::tasks {

using torch::Tensor;

namespace {

physics::Detector checked(const physics::DetectorOptions& options) {
  options.validate();
  if (options.placement == physics::Placement::kFile) {
    throw ConfigError("inference.detector.placement",
                      "sensors of a file are not read here",
                      "set corners, faces or cylinder");
  }
  if (options.event_time != physics::EventTime::kKnown) {
    throw ConfigError("inference.detector.event_time",
                      "the time of the event must be known here");
  }
  if (options.jitter <= 0) {
    throw ConfigError("inference.detector.jitter",
                      "without any, hit times leave no distribution to learn",
                      "set 0.1 ns or more");
  }
  if (options.trigger < 3) {
    throw ConfigError("inference.detector.trigger",
                      "three hits are needed, as many as unknowns");
  }
  return physics::make_detector(options);
}

}  // namespace

VertexInference::VertexInference(const physics::DetectorOptions& options)
    : detector_(checked(options)) {}

std::vector<std::string> VertexInference::unknowns() const {
  return {"x", "y", "z"};
}

std::vector<std::string> VertexInference::observed() const {
  std::vector<std::string> names;
  for (const char* what : {"hit", "time"}) {
    for (int64_t n = 0; n < detector_.sensors(); ++n) {
      names.push_back(fmt::format("{}_{}", what, n));
    }
  }
  return names;
}

std::string VertexInference::describe() const {
  return fmt::format(
      "the vertex of an event (m) given the hits of {} sensors "
      "and their times (ns)",
      detector_.sensors());
}

Pairs VertexInference::draw(int64_t seed, int64_t begin, int64_t count) const {
  const auto events = physics::draw_events(detector_, seed, begin, count);
  return {events.vertices,
          torch::cat({events.hits.to(torch::kFloat64), events.times}, 1)};
}

physics::Events VertexInference::events_of(const Tensor& observed) const {
  const int64_t count = observed.size(0), sensors = detector_.sensors();
  const auto none = torch::zeros({count}, torch::kFloat64);
  const auto hits = observed.narrow(1, 0, sensors);
  if (!((hits == 0) | (hits == 1)).all().item<bool>()) {
    throw DataError("[vertex] a hit is 0 or 1");
  }
  return {.vertices = torch::zeros({count, 3}, torch::kFloat64),
          .offsets = none,
          .times = observed.narrow(1, sensors, sensors).contiguous(),
          .hits = hits.to(torch::kBool),
          .drawn = count};
}

Tensor VertexInference::estimate(const Tensor& observed) const {
  return physics::maximum_likelihood(detector_, events_of(observed)).vertices;
}

Tensor VertexInference::log_joint(const Tensor& unknown,
                                  const Tensor& observed) const {
  const auto events = events_of(observed);
  const auto likelihood =
      physics::log_likelihood(detector_, events, unknown, events.offsets);
  return likelihood.values.masked_fill(
      ~detector_.volume().inside(unknown),
      -std::numeric_limits<double>::infinity());
}

}  // namespace propagator::tasks
