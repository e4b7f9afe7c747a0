#include "propagator/data/tensor_file.h"

#include <fmt/format.h>

#include <optional>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/hdf5.h"
#include "propagator/data/loaded_reader.h"
#include "propagator/data/mat.h"
#include "propagator/data/npz.h"

namespace propagator::data {
namespace {

std::optional<TensorFormat> format_by_ending(const fs::path& path) {
  const auto ending = path.extension();
  if (ending == ".h5" || ending == ".hdf5") return TensorFormat::kHdf5;
  if (ending == ".npz") return TensorFormat::kNpz;
  if (ending == ".mat") return TensorFormat::kMat;
  return std::nullopt;
}

// An npz gathered in memory and written on close.
class NpzWriter : public TensorWriter {
 public:
  NpzWriter(fs::path path, torch::ScalarType type,
            const std::map<std::string, std::vector<int64_t>>& shapes,
            const std::string& note)
      : path_(std::move(path)) {
    content_.note = note;
    for (const auto& [name, shape] : shapes) {
      content_.tensors[name] = torch::zeros(shape, type);
    }
  }
  void write_rows(const std::string& name, int64_t begin,
                  const torch::Tensor& rows) override {
    content_.tensors.at(name).narrow(0, begin, rows.size(0)).copy_(rows);
  }
  void set_note(const std::string& note) override { content_.note = note; }
  void close() override { save_npz(path_, content_); }

 private:
  fs::path path_;
  TensorFile content_;
};

}  // namespace

bool is_tensor_file(const fs::path& path) {
  return format_by_ending(path).has_value();
}

TensorFormat tensor_format(const fs::path& path) {
  if (const auto format = format_by_ending(path)) return *format;
  const auto ending = path.extension();
  const bool pickled = ending == ".pt" || ending == ".pth" || ending == ".pkl";
  throw UsageError(
      fmt::format("{}: expected a file name that ends in .h5, "
                  ".hdf5, .npz or .mat",
                  path.string()),
      pickled ? "a pickle is a program, and is not run here; Python converts "
                "it: d = torch.load(IN); numpy.savez('OUT.npz', "
                "**{k: v.numpy() for k, v in d.items()})"
              : "");
}

TensorFormat written_format(const fs::path& path) {
  const auto format = format_by_ending(path);
  if (format && *format != TensorFormat::kMat) return *format;
  throw UsageError(fmt::format("{}: expected a file name that ends in .h5, "
                               ".hdf5 or .npz",
                               path.string()),
                   format ? "a .mat file is read, not written" : "");
}

std::unique_ptr<TensorReader> TensorReader::open(const fs::path& path) {
  const auto format = tensor_format(path);
  if (!fs::exists(path)) {
    throw FileError(fmt::format("cannot read {}: No such file", path.string()));
  }
  if (format == TensorFormat::kHdf5) return open_hdf5(path);
  if (format == TensorFormat::kMat) return open_mat(path);
  return std::make_unique<LoadedReader>(path, load_npz(path));
}

std::vector<int64_t> TensorReader::shape(const std::string& name) const {
  const auto& known = shapes();
  const auto found = known.find(name);
  if (found == known.end()) {
    std::string names;
    for (const auto& [other, unused] : known) {
      names += (names.empty() ? "" : ", ") + other;
    }
    throw DataError(fmt::format("{}: expected an array named '{}', it has {}",
                                path_.string(), plain_text(name),
                                names.empty() ? "none" : names));
  }
  return found->second;
}

void TensorReader::fail_to_read(const std::string& name,
                                const std::vector<int64_t>& begin,
                                const std::vector<int64_t>& count) const {
  const int64_t first = begin.empty() ? 0 : begin[0];
  const int64_t rows = count.empty() ? 1 : count[0];
  throw DataError(fmt::format("{}: cannot read rows {} to {} of '{}'",
                              path_.string(), first, first + rows - 1,
                              plain_text(name)));
}

void TensorReader::expect_inside(const std::string& name,
                                 const std::vector<int64_t>& begin,
                                 const std::vector<int64_t>& count) const {
  const auto sizes = shape(name);
  bool inside = begin.size() == sizes.size() && count.size() == sizes.size();
  for (size_t d = 0; inside && d < sizes.size(); ++d) {
    inside = begin[d] >= 0 && count[d] >= 0 && begin[d] <= sizes[d] - count[d];
  }
  if (!inside) fail_to_read(name, begin, count);
}

torch::Tensor TensorReader::rows(const std::string& name, int64_t begin,
                                 int64_t count) const {
  auto sizes = shape(name);
  if (sizes.empty()) fail_to_read(name, {begin}, {count});
  std::vector<int64_t> start(sizes.size(), 0);
  start[0] = begin;
  sizes[0] = count;
  return block(name, start, sizes);
}

torch::Tensor TensorReader::all(const std::string& name) const {
  const auto sizes = shape(name);
  if (sizes.empty()) {
    throw DataError(
        fmt::format("{}: expected '{}' to be an array, got a "
                    "single number",
                    path_.string(), name));
  }
  return rows(name, 0, sizes[0]);
}

std::unique_ptr<TensorWriter> TensorWriter::create(
    const fs::path& path, torch::ScalarType type,
    const std::map<std::string, std::vector<int64_t>>& shapes,
    const std::string& note) {
  if (written_format(path) == TensorFormat::kHdf5) {
    std::map<std::string, StoredArray> arrays;
    for (const auto& [name, shape] : shapes) arrays[name] = {type, shape};
    return create_hdf5(path, arrays, note);
  }
  return std::make_unique<NpzWriter>(path, type, shapes, note);
}

void save_tensors(const fs::path& path, const TensorFile& content) {
  if (written_format(path) == TensorFormat::kNpz) {
    save_npz(path, content);
    return;
  }
  // Whole numbers are stored in the widest type of the others.
  auto widest = torch::kFloat32;
  for (const auto& [name, tensor] : content.tensors) {
    if (tensor.scalar_type() == torch::kFloat64) widest = torch::kFloat64;
  }
  std::map<std::string, StoredArray> arrays;
  for (const auto& [name, tensor] : content.tensors) {
    const auto own = tensor.scalar_type();
    arrays[name] = {own == torch::kFloat32 ? own : widest,
                    tensor.sizes().vec()};
  }
  const auto writer = create_hdf5(path, arrays, content.note);
  for (const auto& [name, tensor] : content.tensors) {
    writer->write_rows(name, 0, tensor);
  }
  writer->close();
}

TensorFile load_tensors(const fs::path& path) {
  const auto reader = TensorReader::open(path);
  TensorFile content;
  content.note = reader->note();
  for (const auto& [name, shape] : reader->shapes()) {
    content.tensors[name] = reader->all(name);
  }
  return content;
}

}  // namespace propagator::data
