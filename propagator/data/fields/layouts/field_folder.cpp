#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/fields/field_source.h"
#include "propagator/data/fields/layouts/field_content.h"
#include "propagator/data/npy_folder.h"

namespace propagator::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kParts[] = {"train", "valid", "test"};

bool is_hdf5_name(const fs::path& path) {
  return path.extension() == ".h5" || path.extension() == ".hdf5";
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && is_hdf5_name(entry.path())) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

// The folder with train, valid and test: itself, or `data` in it.
fs::path split_root(const fs::path& path) {
  for (const auto& root : {path / "data", path}) {
    if (fs::is_directory(root / kParts[0])) return root;
  }
  return {};
}

bool same_fields(const FieldLayout& a, const FieldLayout& b) {
  if (a.channels != b.channels || a.parameters != b.parameters ||
      a.constants != b.constants || a.times.numel() != b.times.numel() ||
      a.axes.size() != b.axes.size()) {
    return false;
  }
  for (size_t d = 0; d < a.axes.size(); ++d) {
    if (a.axes[d].name != b.axes[d].name ||
        a.axes[d].at.numel() != b.axes[d].at.numel() ||
        a.axes[d].boundary != b.axes[d].boundary) {
      return false;
    }
  }
  return true;
}

// Cases of another file behind those of the first.
void join(FieldContent& all, const FieldContent& more, const fs::path& file) {
  if (!same_fields(all.layout, more.layout)) {
    throw DataError(
        fmt::format("{}: its frames, axes, channels, constant inputs or "
                    "numbers of cases are not those of the files before it",
                    plain_text(file.string())));
  }
  all.runs.insert(all.runs.end(), more.runs.begin(), more.runs.end());
  if (more.parameters.defined()) {
    all.parameters = torch::cat({all.parameters, more.parameters});
  }
}

FieldContent read_split_folder(const fs::path& path, const fs::path& root,
                               const FieldChoices& choices) {
  std::optional<FieldContent> all;
  SplitIndices split;
  int64_t next = 0, files = 0;
  for (auto* part : {&split.train, &split.validation, &split.test}) {
    const auto* name = kParts[part == &split.train        ? 0
                              : part == &split.validation ? 1
                                                          : 2];
    const auto found = fs::is_directory(root / name) ? files_in(root / name)
                                                     : std::vector<fs::path>();
    if (found.empty()) {
      throw DataError(fmt::format("{}: expected .h5 or .hdf5 files in {}",
                                  plain_text(path.string()),
                                  plain_text((root / name).string())),
                      "train, valid and test are needed; or name one file");
    }
    for (const auto& file : found) {
      auto content = read_field_file(file, choices);
      check_content(plain_text(file.string()), content);
      const int64_t cases = content.cases();
      part->resize(part->size() + static_cast<size_t>(cases));
      std::iota(part->end() - cases, part->end(), next);
      next += cases;
      ++files;
      if (all) {
        join(*all, content, file);
      } else {
        all = std::move(content);
      }
    }
  }
  split.all.resize(static_cast<size_t>(next));
  std::iota(split.all.begin(), split.all.end(), 0);
  all->kind += fmt::format(
      ", {} files with a split of their own: {}", files,
      fmt::join(
          {split.train.size(), split.validation.size(), split.test.size()},
          "/"));
  all->split = std::move(split);
  return std::move(*all);
}

// Each file one case, but those named as axes, which have the places.
FieldContent read_npy_folder(const fs::path& path,
                             const FieldChoices& choices) {
  const auto shown = plain_text(path.string());
  const OpenFields folder{shown, open_npy_folder(path)};
  std::vector<std::string> arrays;
  for (const auto& [name, shape] : folder.reader->shapes()) {
    if (shape.size() > 1) arrays.push_back(name);
  }
  if (arrays.empty()) {
    throw DataError(
        fmt::format("{}: expected .npy files of time and space, or train, "
                    "valid and test with .h5 files",
                    shown));
  }
  const auto shape = folder.reader->shape(arrays[0]);
  auto with_cases = shape;
  with_cases.insert(with_cases.begin(), std::ssize(arrays));
  auto names = choices.axes;
  if (names.empty()) {
    names = guessed_axes(with_cases);
    if (!names.empty()) names.erase(names.begin());
  }
  const auto axes = named_axes(shown, arrays[0], shape, names, false);
  const auto size_of = [&](int64_t role) {
    const auto found = std::ranges::find(axes.roles, role);
    return found == axes.roles.end()
               ? int64_t{1}
               : shape[static_cast<size_t>(found - axes.roles.begin())];
  };
  FieldContent content{
      .kind =
          fmt::format("a folder of .npy files, each a case{}",
                      choices.axes.empty() ? ", whose axes are guessed" : ""),
      .layout = {},
      .runs = {}};
  auto& layout = content.layout;
  const auto place = [&](const std::string& name, int64_t count) {
    return folder.reader->shapes().contains(name)
               ? places_or_numbers(*folder.reader, name, count, content)
               : torch::arange(count, torch::kFloat64);
  };
  layout.times = place("t", size_of(kTimeAxis));
  for (size_t d = 0; d < axes.space.size(); ++d) {
    layout.axes.push_back({axes.space[d],
                           place(axes.space[d], size_of(int64_t(d))),
                           Boundary::kOpen});
  }
  for (const auto& name : arrays) {
    content.runs.push_back(
        {size_of(kCaseAxis), {folder.piece(name, axes.roles)}});
  }
  const int64_t channels = content.runs[0].pieces[0].channels();
  for (int64_t c = 0; c < channels; ++c) {
    layout.channels.push_back(channels == 1 ? "u" : fmt::format("u{}", c));
  }
  return content;
}

}  // namespace

bool is_field_path(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (fs::exists(path / "config.yaml", ignored)) return false;  // a run
    if (!split_root(path).empty()) return true;
    for (const auto& entry : fs::directory_iterator(path, ignored)) {
      if (entry.path().extension() == ".npy") return true;
    }
    return false;
  }
  return fs::is_regular_file(path, ignored) &&
         (is_tensor_file(path) || path.extension() == ".pt" ||
          path.extension() == ".pth");
}

FieldContent read_field_folder(const fs::path& path,
                               const FieldChoices& choices) {
  const auto root = split_root(path);
  if (!root.empty()) return read_split_folder(path, root, choices);
  auto content = read_npy_folder(path, choices);
  part_constants(content, choices);
  return content;
}

}  // namespace propagator::data
