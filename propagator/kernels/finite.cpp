#include "propagator/kernels/finite.h"

#include <cmath>
#include <limits>

namespace propagator::kernels {
namespace {

template <class T>
struct IsFinite {
  bool operator()(T value) const {
    return std::abs(value) <= std::numeric_limits<T>::max();
  }
};
template <class T>
struct IsPositive {
  bool operator()(T value) const {
    return value > 0 && value <= std::numeric_limits<T>::max();
  }
};

// Without a jump, so that the compiler can take several at a time.
template <class T, class IsGood>
bool all_in_row(const T* first, int64_t count, int64_t stride, IsGood is_good) {
  int bad = 0;
  if (stride == 1) {
    for (int64_t n = 0; n < count; ++n) bad |= is_good(first[n]) ? 0 : 1;
  } else {
    for (int64_t n = 0; n < count; ++n) {
      bad |= is_good(first[n * stride]) ? 0 : 1;
    }
  }
  return bad == 0;
}

template <class T, class IsGood>
bool all_along(const T* first, torch::IntArrayRef sizes,
               torch::IntArrayRef strides, IsGood is_good) {
  if (sizes.size() == 1) {
    return all_in_row(first, sizes[0], strides[0], is_good);
  }
  for (int64_t n = 0; n < sizes[0]; ++n) {
    if (!all_along(first + n * strides[0], sizes.slice(1), strides.slice(1),
                   is_good)) {
      return false;
    }
  }
  return true;
}

template <class T, class IsGood>
bool all_numbers(const torch::Tensor& values, IsGood is_good) {
  const auto* first = values.data_ptr<T>();
  if (values.is_non_overlapping_and_dense()) {
    return all_in_row(first, values.numel(), 1, is_good);
  }
  return all_along(first, values.sizes(), values.strides(), is_good);
}

// `otherwise` for other types and devices.
template <template <class> class IsGood, class Otherwise>
bool all_are(const torch::Tensor& values, Otherwise&& otherwise) {
  if (values.is_cpu() && values.scalar_type() == torch::kFloat32) {
    return all_numbers<float>(values, IsGood<float>());
  }
  if (values.is_cpu() && values.scalar_type() == torch::kFloat64) {
    return all_numbers<double>(values, IsGood<double>());
  }
  return otherwise().all().template item<bool>();
}

}  // namespace

bool all_finite(const torch::Tensor& values) {
  return all_are<IsFinite>(values, [&] { return torch::isfinite(values); });
}

bool all_positive(const torch::Tensor& values) {
  return all_are<IsPositive>(values, [&] {
    return torch::logical_and(torch::isfinite(values), values > 0);
  });
}

}  // namespace propagator::kernels
