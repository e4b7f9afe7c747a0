#pragma once

#include <torch/types.h>

#include <string>

namespace propagator::data {

// NumPy's .npy format: magic, version, length of the header, a header like
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// padded with blanks, then the numbers.
std::string to_npy(const torch::Tensor& tensor);
// DataError says what is wrong.
torch::Tensor from_npy(const std::string& bytes);

}  // namespace propagator::data
