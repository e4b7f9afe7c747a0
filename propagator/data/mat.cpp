#include "propagator/data/mat.h"

#include <fstream>
#include <set>

#include "propagator/core/error.h"
#include "propagator/data/axes.h"
#include "propagator/data/hdf5.h"
#include "propagator/data/loaded_reader.h"

namespace propagator::data {
namespace {

namespace fs = std::filesystem;

enum class MatVersion { k5, k73, kOther };

// As bytes 124 to 127 of the header say it: the version, and "MI" as the
// machine that wrote it stores two letters.
MatVersion version_of(const fs::path& path) {
  std::string header(128, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  if (!file) return MatVersion::kOther;
  const auto mark = header.substr(126), version = header.substr(124, 2);
  const bool swapped = mark == "IM";
  if (!swapped && mark != "MI") return MatVersion::kOther;
  const char major = version[swapped ? 1 : 0];
  if (major == 1) return MatVersion::k5;
  return major == 2 ? MatVersion::k73 : MatVersion::kOther;
}

std::unique_ptr<TensorReader> open_mat73(const fs::path& path) {
  const auto stored = open_hdf5(path);
  TensorFile content;
  const auto others = stored->unread();
  std::set<std::string> unread(others.begin(), others.end());
  for (const auto& [name, shape] : stored->shapes()) {
    const auto group = name.find('/');
    if (group == std::string::npos && !shape.empty()) {
      content.tensors[name] =
          with_axes_reversed(stored->all(name)).contiguous();
    } else {
      unread.insert(name.substr(0, group));  // a struct or a sparse array
    }
  }
  unread.erase("#refs#");  // what cells hold
  return std::make_unique<LoadedReader>(
      path, std::move(content),
      std::vector<std::string>(unread.begin(), unread.end()));
}

}  // namespace

std::unique_ptr<TensorReader> open_mat(const fs::path& path) {
  const auto version = version_of(path);
  if (version == MatVersion::k73) return open_mat73(path);
  if (version == MatVersion::k5) {
    auto [tensors, unread] = load_mat5(path);
    return std::make_unique<LoadedReader>(
        path, TensorFile{std::move(tensors), ""}, std::move(unread));
  }
  throw DataError(
      path.string() + " is not a .mat file of version 5 or 7.3, or is damaged",
      "MATLAB's save writes them with -v7 or -v7.3");
}

}  // namespace propagator::data
