#include "propagator/bench/timing.h"

#include <torch/utils.h>

#include <algorithm>
#include <vector>

#include "propagator/core/peak_memory.h"
#include "propagator/core/progress.h"
#include "propagator/core/stopwatch.h"

namespace propagator::bench {

Spread measure(const std::string& title, const Runtime& runtime,
               const TimingPlan& plan, const std::function<void()>& work) {
  std::vector<double> times;
  const int64_t calls = plan.warm_up + plan.repeats;
  Progress progress(title, calls);
  begin_peak_memory(runtime);
  for (int64_t n = 0; n < calls; ++n) {
    wait_for(runtime);
    const Stopwatch clock;
    work();
    wait_for(runtime);
    if (n >= plan.warm_up) times.push_back(1000 * clock.seconds());
    progress.update(n + 1);
  }
  std::ranges::sort(times);
  const auto at = [&](size_t quarter) {
    return times[(times.size() - 1) * quarter / 4];
  };
  return {
      at(0), at(1), at(2), at(3), at(4), plan.repeats, peak_memory(runtime)};
}

torch::TensorOptions product_options(const Runtime& runtime) {
  const bool half = runtime.precision == Precision::kBFloat16;
  return runtime.options().dtype(half ? torch::kBFloat16 : runtime.dtype());
}

Limits measure_limits(const Runtime& runtime) {
  const torch::NoGradGuard no_grad;
  const bool small = runtime.device.is_cpu();
  const int64_t n = small ? 1536 : 8192;
  const int64_t bytes = int64_t{1} << (small ? 28 : 30);
  const auto options = product_options(runtime);
  const auto a = torch::rand({n, n}, options), b = torch::rand({n, n}, options);
  auto product = torch::empty_like(a);
  const auto from = torch::zeros({bytes}, options.dtype(torch::kUInt8));
  auto to = torch::empty_like(from);
  const TimingPlan plan{2, 5};
  const auto multiplied = measure("limit of products", runtime, plan,
                                  [&] { torch::mm_out(product, a, b); });
  const auto copied =
      measure("limit of copies", runtime, plan, [&] { to.copy_(from); });
  const auto size = static_cast<double>(n);
  return {2 * size * size * size / (multiplied.fastest * 1e-3),
          2 * static_cast<double>(bytes) / (copied.fastest * 1e-3)};
}

std::string Shares::bound_by() const {
  return of_products >= of_copy ? "products" : "copy";
}

double Shares::of_nearer() const { return std::max(of_products, of_copy); }

Shares shares_of(const Limits& limits, double seconds, double operations,
                 double bytes) {
  return {operations / seconds / limits.operations,
          bytes / seconds / limits.bytes};
}

}  // namespace propagator::bench
