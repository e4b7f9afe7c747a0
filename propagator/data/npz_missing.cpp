#include "propagator/core/error.h"
#include "propagator/data/npz.h"

namespace propagator::data {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path) {
  throw UsageError(path.string() + ": this build cannot read or write .npz",
                   "use .h5, or install libzip and build again");
}

}  // namespace

void save_npz(const std::filesystem::path& path, const TensorFile&) {
  refuse(path);
}
TensorFile load_npz(const std::filesystem::path& path) { refuse(path); }
bool has_npz() { return false; }

}  // namespace propagator::data
