#include "propagator/data/loaded_reader.h"

namespace propagator::data {

torch::Tensor LoadedReader::block(const std::string& name,
                                  const std::vector<int64_t>& begin,
                                  const std::vector<int64_t>& count) const {
  expect_inside(name, begin, count);
  auto part = content_.tensors.at(name);
  for (size_t d = 0; d < begin.size(); ++d) {
    part = part.narrow(static_cast<int64_t>(d), begin[d], count[d]);
  }
  return part;
}

}  // namespace propagator::data
