#pragma once

#include <filesystem>
#include <vector>

namespace propagator::data {

// Files whose numbers are read again and again while a run lasts: they have to
// stay as they were when it began.
class WatchedFiles {
 public:
  // A file, or all HDF5 files in a folder and those below it.
  explicit WatchedFiles(const std::filesystem::path& path);
  // DataError that names one that has another size or time, or is not there.
  void expect_unchanged() const;

 private:
  struct Seen {
    std::filesystem::path path;
    std::uintmax_t size = 0;
    std::filesystem::file_time_type time = {};

    bool operator==(const Seen&) const = default;
  };
  static Seen look_at(const std::filesystem::path& path);

  std::vector<Seen> files_;
};

}  // namespace propagator::data
