#pragma once

#include <optional>

#include "propagator/models/field_net.h"
#include "propagator/report/report.h"
#include "propagator/tasks/solve/solve_plane.h"

namespace propagator::tasks {

// What a network that answers from M sensors attends to, as `pgt` does: a point
// in the place of one of them, and that sensor itself. Weights of all sensors
// sum to one, with the global token's, which stands in front, where there is
// one. On the CPU, in float64.
struct SensorAttention {
  int64_t sensor = 0;         // its number
  torch::Tensor point = {};   // (H, M), cross-attention of the point
  torch::Tensor layers = {};  // (L, M + 1), of the sensor, the mean of heads
  // (M + 1), what the Green's function alone makes of the latter, the softmax
  // of its logarithm; undefined without one.
  torch::Tensor green = {};
};

bool attends_to_sensors(models::FieldNet& model);

// `window` (1, T, D) is the sensor's place. Nothing if the network attends to
// no sensors, or to others than these.
std::optional<SensorAttention> attention_at(models::FieldNet& model,
                                            const torch::Tensor& window,
                                            int64_t sensor, int64_t sensors);

// Which of the points (M, D) of a domain has a past and others around it: the
// nearest to the middle of space, at three quarters of time (-1: none).
int64_t telling_sensor(const torch::Tensor& points,
                       const std::vector<pde::Interval>& domain, int64_t time);

// The figure sensor-attention: the weights at the sensors' places (M, 2) on
// a plane, as SolvePlane::near gives them.
void draw_attention(const SensorAttention& attention,
                    const torch::Tensor& places, const SolvePlane& plane,
                    report::Report& report);

}  // namespace propagator::tasks
