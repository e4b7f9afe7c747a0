#include <stdexcept>

#include "mat_files.h"

namespace propagator::testing {

void write_mat(const std::filesystem::path&, const data::Tensors&, MatKind) {
  throw std::logic_error("built without matio");
}

void write_mat_with_others(const std::filesystem::path&, MatKind) {
  throw std::logic_error("built without matio");
}

}  // namespace propagator::testing
