#include "propagator/data/fields/watched_files.h"

#include <system_error>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"

namespace propagator::data {

namespace fs = std::filesystem;

WatchedFiles::WatchedFiles(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    files_.push_back(look_at(path));
    return;
  }
  for (const auto& entry : fs::recursive_directory_iterator(path, ignored)) {
    const auto ending = entry.path().extension();
    if (ending == ".h5" || ending == ".hdf5") {
      files_.push_back(look_at(entry.path()));
    }
  }
}

WatchedFiles::Seen WatchedFiles::look_at(const fs::path& path) {
  std::error_code missing;
  Seen seen{path, fs::file_size(path, missing), {}};
  seen.time = fs::last_write_time(path, missing);
  return seen;
}

void WatchedFiles::expect_unchanged() const {
  for (const auto& file : files_) {
    if (look_at(file.path) == file) continue;
    throw DataError(fmt::format("{} has changed since the run began to read it",
                                plain_text(file.path.string())),
                    "leave data alone while they train, or keep them in memory "
                    "(data.storage=memory)");
  }
}

}  // namespace propagator::data
