#pragma once

#include <functional>

namespace propagator::bench {

// The operations of the matrix products and convolutions that `work` asks
// libtorch for in this thread, and of those kernels of ours that tell
// libtorch's profiler of themselves. A product that is made of others counts
// once.
double operations_of(const std::function<void()>& work);

}  // namespace propagator::bench
