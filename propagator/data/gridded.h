#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace propagator::data {

// Fields on a grid: each variable's places, which rise, and the fields at all
// of their combinations, the last variable fastest; in float64.
struct Gridded {
  std::vector<torch::Tensor> along;
  torch::Tensor fields;  // (N, F)

  std::vector<int64_t> shape() const;
};

// Of a file that has each variable's places under its name, and each field's
// values over all of them, by the variables in this order or the other way
// round; or of one in the layout of wake_layout.h. DataError unless that is so
// and all are finite.
Gridded read_gridded(const std::filesystem::path& path,
                     const std::vector<std::string>& variables,
                     const std::vector<std::string>& fields);

}  // namespace propagator::data
