#include "fuzz/target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "propagator/core/error.h"

namespace propagator::fuzz {
namespace {

namespace fs = std::filesystem;

class ScratchFolder {
 public:
  ScratchFolder() {
    const fs::path memory = "/dev/shm";
    path = (fs::is_directory(memory) ? memory : fs::temp_directory_path()) /
           fmt::format("propagator-fuzz-{}", getpid());
    fs::create_directories(path);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }

  fs::path path;
};

}  // namespace

std::vector<Target> all_targets(const fs::path& source) {
  auto all = text_targets(source);
  for (const auto& more :
       {data_targets(source), run_targets(), serve_targets()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

bool accepts(const Target& target, const std::string& bytes) {
  try {
    target.read(bytes);
    return true;
  } catch (const std::exception& error) {
    if (dynamic_cast<const Hinted*>(&error) == nullptr) throw;
    return false;
  }
}

const fs::path& scratch_folder() {
  static const ScratchFolder folder;
  return folder.path;
}

fs::path scratch_file(const std::string& name, const std::string& bytes) {
  const auto path = scratch_folder() / name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace propagator::fuzz
