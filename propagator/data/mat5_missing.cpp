#include "propagator/core/error.h"
#include "propagator/data/mat.h"

namespace propagator::data {

Mat5 load_mat5(const std::filesystem::path& path) {
  throw UsageError(path.string() + ": this build cannot read such .mat files",
                   "install matio (Debian: libmatio-dev) and build again, or "
                   "save it in MATLAB with -v7.3");
}
bool has_matio() { return false; }

}  // namespace propagator::data
