#include "propagator/nn/patches.h"

#include <fmt/ranges.h>

#include <stdexcept>
#include <vector>

namespace propagator::nn {
namespace {

using torch::Tensor;

// Of `lead` axes, then D pairs and the channels: the first of each pair and
// then the second of each, or back again.
std::vector<int64_t> pairs_apart(int64_t lead, int64_t axes, bool apart) {
  std::vector<int64_t> order;
  for (int64_t n = 0; n < lead; ++n) order.push_back(n);
  for (int64_t n = 0; n < 2 * axes; ++n) {
    order.push_back(
        lead + (apart ? 2 * (n % axes) + n / axes : axes * (n % 2) + n / 2));
  }
  order.push_back(lead + 2 * axes);
  return order;
}

}  // namespace

Tensor patches_of(const Tensor& fields, int64_t axes, int64_t patch) {
  const int64_t lead = fields.dim() - 1 - axes;
  std::vector<int64_t> cut, joined;
  for (int64_t d = 0; d < lead; ++d) cut.push_back(fields.size(d));
  joined = cut;
  int64_t patches = 1, numbers = fields.size(-1);
  for (int64_t d = lead; d < lead + axes; ++d) {
    if (fields.size(d) % patch != 0) {
      throw std::invalid_argument(
          fmt::format("[patches] expected {} axes of a multiple of {} nodes, "
                      "got ({})",
                      axes, patch, fmt::join(fields.sizes(), ", ")));
    }
    cut.push_back(fields.size(d) / patch);
    cut.push_back(patch);
    patches *= fields.size(d) / patch;
    numbers *= patch;
  }
  cut.push_back(fields.size(-1));
  joined.push_back(patches);
  joined.push_back(numbers);
  return fields.reshape(cut)
      .permute(pairs_apart(lead, axes, true))
      .reshape(joined);
}

Tensor fields_of(const Tensor& patches, torch::IntArrayRef nodes,
                 int64_t patch) {
  const auto axes = static_cast<int64_t>(nodes.size());
  const int64_t lead = patches.dim() - 2;
  std::vector<int64_t> cut, joined;
  for (int64_t d = 0; d < lead; ++d) cut.push_back(patches.size(d));
  joined = cut;
  int64_t channels = patches.size(-1);
  for (const int64_t n : nodes) cut.push_back(n / patch);
  for (const int64_t n : nodes) {
    cut.push_back(patch);
    joined.push_back(n);
    channels /= patch;
  }
  cut.push_back(channels);
  joined.push_back(channels);
  return patches.reshape(cut)
      .permute(pairs_apart(lead, axes, false))
      .reshape(joined);
}

}  // namespace propagator::nn
