#pragma once

#include <functional>
#include <optional>
#include <string>

#include "propagator/core/device.h"

namespace propagator::bench {

// Milliseconds of repeated work, and the most memory that it took, in bytes,
// where the device tells.
struct Spread {
  double fastest, lower_quartile, median, upper_quartile, slowest;
  int64_t repeats;
  std::optional<int64_t> peak_memory = {};
};

// Counts are multiplied as floating-point numbers.
inline double number(int64_t value) { return static_cast<double>(value); }

// How often work runs before it is timed, and then.
struct TimingPlan {
  int64_t warm_up, repeats;
};

// Times `work`, each time from an idle device to an idle device; `title` is
// for the progress on stderr.
Spread measure(const std::string& title, const Runtime& runtime,
               const TimingPlan& plan, const std::function<void()>& work);

// What matrix products work on; in bf16 autocast brings them there.
torch::TensorOptions product_options(const Runtime& runtime);

// What this device can do at most, measured: operations a second of a large
// matrix product in the runtime's precision, and bytes a second, read and
// written, of a large copy.
struct Limits {
  double operations, bytes;
};
Limits measure_limits(const Runtime& runtime);

// How near to these limits some work came.
struct Shares {
  double of_products = 0, of_copy = 0;

  // The limit that is nearer, "products" or "copy", and the share of it.
  std::string bound_by() const;
  double of_nearer() const;
};
Shares shares_of(const Limits& limits, double seconds, double operations,
                 double bytes);

}  // namespace propagator::bench
