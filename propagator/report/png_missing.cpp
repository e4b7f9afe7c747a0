#include "propagator/core/error.h"
#include "propagator/report/png.h"

namespace propagator::report {
namespace {

[[noreturn]] void refuse(const fs::path& path) {
  throw UsageError(path.string() + ": this build cannot write .png",
                   "install libpng and build again");
}

}  // namespace

std::string png_of(const Image&) { refuse("a picture"); }
void write_png(const fs::path& path, const Image&) { refuse(path); }
void write_animated_png(const fs::path& path, std::span<const Image>, double) {
  refuse(path);
}
bool has_png() { return false; }

}  // namespace propagator::report
