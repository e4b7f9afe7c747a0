#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace propagator::data {

// NumPy's .npy format: magic, version, length of the header, a header like
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// padded with blanks, then the numbers.
std::string to_npy(const torch::Tensor& tensor);
// DataError says what is wrong.
torch::Tensor from_npy(const std::string& bytes);

// What is in front of the numbers.
struct NpyHeader {
  torch::ScalarType type = torch::kFloat32;
  bool fortran = false;  // the first index counts fastest
  std::vector<int64_t> shape = {};
  uint64_t data = 0;  // where the numbers begin
};
inline constexpr size_t kMostOfNpyHeader = 10'012;
// Of a file that has `bytes` in all and begins so; DataError says what is
// wrong.
NpyHeader npy_header(const std::string& begin, uint64_t bytes);

}  // namespace propagator::data
