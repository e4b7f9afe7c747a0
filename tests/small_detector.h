#pragma once

#include <torch/types.h>

#include "propagator/models/locator.h"
#include "testing.h"

namespace propagator::testing {

// Six sensors in a volume of 10 m, five events that not all of them saw.
inline models::DetectorShape small_detector(bool event_time_known = true) {
  return {.sensors = 6,
          .size = 10,
          .light_speed = 0.2,
          .event_time_known = event_time_known};
}

inline models::Hits small_hits() {
  const auto hit = torch::tensor({{1, 1, 1, 1, 1, 1},
                                  {1, 0, 1, 1, 0, 1},
                                  {0, 1, 1, 1, 1, 0},
                                  {0, 0, 0, 1, 1, 1},
                                  {1, 1, 0, 0, 1, 1}}) == 1;
  // Multiples of 2⁻¹⁰ ns: sums with whole numbers are exact.
  const auto times =
      torch::round((40 + 30 * random({5, 6}, "times")) * 1024) / 1024;
  return {times * hit, hit, 5 * random({6, 3}, "positions")};
}

// A detector's hits with the sensors in another order.
inline models::Hits reordered(const models::Hits& hits,
                              const torch::Tensor& order) {
  return {hits.times.index_select(1, order), hits.hit.index_select(1, order),
          hits.positions.index_select(0, order)};
}

// The same hits with other times where there is no hit.
inline models::Hits with_other_times_unhit(const models::Hits& hits) {
  return {torch::where(hits.hit, hits.times, random({5, 6}, "other") * 100),
          hits.hit, hits.positions};
}

}  // namespace propagator::testing
