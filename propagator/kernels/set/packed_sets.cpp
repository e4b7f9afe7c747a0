#include "propagator/kernels/set/packed_sets.h"

namespace propagator::kernels {

PackedSets pack_sets(const torch::Tensor& padding) {
  const auto given = padding.contiguous();
  const int64_t sets = given.size(0), tokens = given.size(1);
  const auto begin = torch::empty({sets + 1}, torch::kInt64);
  const auto place = torch::empty({sets * tokens}, torch::kInt64);
  const bool* hidden = given.data_ptr<bool>();
  auto* from = begin.data_ptr<int64_t>();
  auto* to = place.data_ptr<int64_t>();
  int64_t rows = 0;
  for (int64_t b = 0; b < sets; ++b) {
    from[b] = rows;
    for (int64_t p = b * tokens; p < (b + 1) * tokens; ++p) {
      if (!hidden[p]) to[rows++] = p;
    }
  }
  from[sets] = rows;
  return {sets, tokens, begin, place.narrow(0, 0, rows)};
}

}  // namespace propagator::kernels
