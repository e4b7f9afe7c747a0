#include "propagator/data/loaded_reader.h"

#include <fmt/format.h>

#include "propagator/core/error.h"

namespace propagator::data {

std::map<std::string, std::vector<int64_t>> LoadedReader::shapes() const {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : content_.tensors) {
    shapes[name] = tensor.sizes().vec();
  }
  return shapes;
}

torch::Tensor LoadedReader::rows(const std::string& name, int64_t begin,
                                 int64_t count) const {
  const auto sizes = shape(name);
  if (sizes.empty() || begin < 0 || begin + count > sizes[0]) {
    throw DataError(fmt::format("{}: cannot read rows {} to {} of '{}'",
                                path_.string(), begin, begin + count - 1,
                                name));
  }
  return content_.tensors.at(name).narrow(0, begin, count);
}

}  // namespace propagator::data
