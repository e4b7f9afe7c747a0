#include "propagator/data/hdf5.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/plain_text.h"
#include "propagator/core/trial.h"
#include "propagator/data/array_bytes.h"
#include "propagator/data/hdf5_attributes.h"
#include "propagator/data/hdf5_handle.h"

namespace propagator::data {
namespace {

constexpr hsize_t kLongestSide = std::numeric_limits<int64_t>::max();
// Bytes of an array for one byte of its file: deflate gives 1032 at most.
constexpr uint64_t kDensest = 1100;
constexpr double kTrialBytes = 1 << 26;          // of one array
constexpr double kTrialTotal = 4 * kTrialBytes;  // then one row of each
constexpr size_t kLongestNote = 64'000;  // HDF5's own limit for attributes

// Errors are ours to report; the library would print its stack to stderr, and
// at exit touch files again whose writing failed, and crash.
void tame_hdf5() {
  H5dont_atexit();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

hid_t memory_type(torch::ScalarType type) {
  return type == torch::kFloat64 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
}

std::vector<hsize_t> sizes(const std::vector<int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

// The file's space with a block selected.
Handle select_block(hid_t dataset, const std::vector<int64_t>& begin,
                    const std::vector<int64_t>& count) {
  Handle space(H5Dget_space(dataset), H5Sclose);
  if (begin.empty()) return space;
  const auto start = sizes(begin), extent = sizes(count);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr,
                      extent.data(), nullptr);
  return space;
}

Handle memory_space(const std::vector<int64_t>& shape) {
  const auto extent = sizes(shape);
  return Handle(
      H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr),
      H5Sclose);
}

// Whether damage to a file's headers shows: in the format of HDF5 1.8 and
// later, which few programs write unless they are asked to. In files of the
// earlier one HDF5 1.10 trusts what it finds.
bool has_checksums(const fs::path& path) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::string begin(kSignature.size() + 1, '\0');
  std::ifstream(path, std::ios::binary)
      .read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin.starts_with(kSignature) && begin.back() >= 2;
}

class Hdf5Reader : public TensorReader {
 public:
  explicit Hdf5Reader(const fs::path& path) : TensorReader(path) {
    const std::lock_guard lock(hdf5_mutex());
    tame_hdf5();
    file_ =
        Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    if (!file_.valid()) {
      throw DataError(path.string() + " is not an HDF5 file, or is damaged");
    }
    if (H5Lvisit(file_, H5_INDEX_NAME, H5_ITER_NATIVE, &add, this) < 0) {
      throw DataError(path.string() + " is damaged: its arrays have no shape");
    }
  }

  ~Hdf5Reader() override {
    const std::lock_guard lock(hdf5_mutex());
    file_.reset();
  }

  // DataError if an array's numbers are in another file: a file names what is
  // read, and nothing else is opened for it.
  void expect_own_numbers() const {
    if (elsewhere_.empty()) return;
    throw DataError(
        fmt::format("{}: the numbers of '{}' are in another file, which is not "
                    "opened",
                    path_.string(), elsewhere_),
        "store them in the file itself");
  }

  // Reads what a trial may of each array, the first rows and the last, and all
  // attributes. DataError if that fails.
  void look_through() const {
    if (!elsewhere_.empty()) return;
    double left = kTrialTotal;
    for (const auto& [name, shape] : shapes_) {
      look_at_attributes(name);
      if (shape.empty() || shape[0] == 0 || filters_.contains(name)) continue;
      double row = sizeof(double);  // bytes
      for (size_t i = 1; i < shape.size(); ++i)
        row *= static_cast<double>(shape[i]);
      if (row > kTrialBytes || left < -kTrialTotal) continue;
      const double most = std::min(kTrialBytes, left) / std::max(row, 1.0);
      const int64_t first =
          std::clamp(static_cast<int64_t>(most), int64_t{0}, shape[0]);
      if (first > 0) rows(name, 0, first);
      rows(name, shape[0] - 1, 1);
      left -= row * static_cast<double>(first + 1);
    }
    look_at_attributes("");
    for (const auto& name : groups_) look_at_attributes(name);
  }

  const Shapes& shapes() const override { return shapes_; }
  std::vector<std::string> unread() const override { return unread_; }
  std::vector<std::string> groups() const override { return groups_; }

  std::string note() const override {
    // One text: a list of them is none of ours.
    const auto texts = this->texts("", "note");
    return texts.size() == 1 ? texts.front() : "";
  }

  std::vector<std::string> attributes(
      const std::string& object) const override {
    const std::lock_guard lock(hdf5_mutex());
    const auto owner = open_object(object);
    return owner.valid() ? attribute_names(owner) : std::vector<std::string>();
  }
  std::vector<std::string> texts(const std::string& object,
                                 const std::string& name) const override {
    const std::lock_guard lock(hdf5_mutex());
    const auto owner = open_object(object);
    return owner.valid() ? text_attribute(owner, name.c_str())
                         : std::vector<std::string>();
  }
  std::vector<double> numbers(const std::string& object,
                              const std::string& name) const override {
    const std::lock_guard lock(hdf5_mutex());
    const auto owner = open_object(object);
    return owner.valid() ? number_attribute(owner, name.c_str())
                         : std::vector<double>();
  }

  torch::Tensor block(const std::string& name,
                      const std::vector<int64_t>& begin,
                      const std::vector<int64_t>& count) const override {
    expect_inside(name, begin, count);
    const std::lock_guard lock(hdf5_mutex());
    Handle dataset(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), H5Dclose);
    Handle stored(H5Dget_type(dataset), H5Tclose);
    const bool flags = H5Tget_class(stored) == H5T_ENUM;
    const bool wide = H5Tget_size(stored) > 4;
    const auto type = flags  ? torch::kUInt8
                      : wide ? torch::kFloat64
                             : torch::kFloat32;
    const auto file_space = select_block(dataset, begin, count);
    const auto memory = memory_space(count);
    expect_to_hold(name, count, type);
    auto tensor = torch::empty(count, type);
    if (H5Dread(dataset, flags ? hid_t{stored} : memory_type(type), memory,
                file_space, H5P_DEFAULT, tensor.data_ptr()) < 0) {
      expect_filters(name);
      fail_to_read(name, begin, count);
    }
    return flags ? tensor.to(torch::kFloat32) : tensor;
  }

 private:
  static herr_t add(hid_t group, const char* name, const H5L_info_t* link,
                    void* self) {
    // Another file than the one that was named is not ours to open.
    if (link->type == H5L_TYPE_EXTERNAL) return 0;
    Handle dataset(H5Dopen2(group, name, H5P_DEFAULT), H5Dclose);
    auto& reader = *static_cast<Hdf5Reader*>(self);
    if (!dataset.valid()) {  // a group, whose own are visited next
      reader.groups_.emplace_back(name);
      return 0;
    }
    if (is_elsewhere(dataset)) {
      reader.elsewhere_ = name;
      return 0;
    }
    // MATLAB stores the shape of an array without numbers in their place.
    if (H5Aexists(dataset, "MATLAB_empty") > 0) {
      reader.unread_.push_back(name);
      return 0;
    }
    Handle type(H5Dget_type(dataset), H5Tclose);
    const auto kind = H5Tget_class(type);
    const bool flags = kind == H5T_ENUM && H5Tget_size(type) == 1;
    if (kind != H5T_INTEGER && kind != H5T_FLOAT && !flags) {
      reader.unread_.push_back(name);
      return 0;
    }
    if (auto filter = missing_filter(dataset); !filter.empty()) {
      reader.filters_[name] = std::move(filter);
    }
    Handle space(H5Dget_space(dataset), H5Sclose);
    const int dimensions = H5Sget_simple_extent_ndims(space);
    if (dimensions < 0) return -1;
    std::vector<hsize_t> extent(static_cast<size_t>(dimensions));
    if (H5Sget_simple_extent_dims(space, extent.data(), nullptr) < 0) return -1;
    auto& shape = reader.shapes_[name];
    for (const hsize_t n : extent) {
      if (n > kLongestSide) return -1;
      shape.push_back(static_cast<int64_t>(n));
    }
    return 0;
  }

  // DataError if it is for want of a filter that an array cannot be read.
  void expect_filters(const std::string& name) const {
    const auto found = filters_.find(name);
    if (found == filters_.end()) return;
    throw DataError(
        fmt::format("{}: '{}' is compressed by the filter {}, which libhdf5 "
                    "does not have here",
                    path_.string(), plain_text(name), found->second),
        "where it can be read, `h5repack -f GZIP=4 IN OUT` stores it so that "
        "every program can");
  }

  Handle open_object(const std::string& name) const {
    return Handle(
        H5Oopen(file_, name.empty() ? "/" : name.c_str(), H5P_DEFAULT),
        H5Oclose);
  }

  void look_at_attributes(const std::string& object) const {
    for (const auto& name : attributes(object)) {
      texts(object, name);
      numbers(object, name);
    }
  }

  // By external storage, or as a view of datasets of other files.
  static bool is_elsewhere(hid_t dataset) {
    const Handle made(H5Dget_create_plist(dataset), H5Pclose);
    return made.valid() && (H5Pget_external_count(made) > 0 ||
                            H5Pget_layout(made) == H5D_VIRTUAL);
  }

  // DataError if the file is too small for an array of this shape.
  void expect_to_hold(const std::string& name,
                      const std::vector<int64_t>& shape,
                      torch::ScalarType type) const {
    uint64_t most = 0;
    const bool counts =
        !__builtin_mul_overflow(fs::file_size(path_), kDensest, &most);
    const auto bytes = array_bytes(shape, type);
    if (counts && bytes && *bytes <= most) return;
    throw DataError(fmt::format("{} is damaged: it is too small for '{}', ({})",
                                path_.string(), name, fmt::join(shape, ", ")));
  }

  Handle file_;
  Shapes shapes_;
  std::vector<std::string> unread_, groups_;
  std::map<std::string, std::string> filters_;  // that are missing, by array
  std::string elsewhere_;  // one whose numbers are not in this file
};

// A file that is removed unless it was renamed away.
struct PartialFile {
  explicit PartialFile(fs::path name) : path(std::move(name)) {}
  ~PartialFile() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  fs::path path;
};

class Hdf5Writer : public TensorWriter {
 public:
  Hdf5Writer(fs::path path, std::map<std::string, StoredArray> arrays,
             const std::string& note)
      : path_(std::move(path)),
        arrays_(std::move(arrays)),
        partial_(path_.parent_path() / fmt::format(".tmp-h5-{}-{}",
                                                   path_.filename().string(),
                                                   getpid())) {
    const std::lock_guard lock(hdf5_mutex());
    tame_hdf5();
    create_folders(path_.parent_path());
    // Of the formats that HDF5 1.8 reads, the one whose headers have checksums.
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);
    file_ = Handle(
        H5Fcreate(partial_.path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access),
        H5Fclose);
    check(file_.valid());
    for (const auto& [name, array] : arrays_) create_array(name, array);
    put_note(note);
  }
  ~Hdf5Writer() override {
    const std::lock_guard lock(hdf5_mutex());
    file_.reset();
  }

  void write_rows(const std::string& name, int64_t begin,
                  const torch::Tensor& rows) override {
    const auto& [type, shape] = arrays_.at(name);
    const auto values = rows.to(torch::kCPU, type).contiguous();
    auto expected = shape;
    expected[0] = values.size(0);
    if (values.sizes().vec() != expected || begin + expected[0] > shape[0]) {
      throw UsageError(
          fmt::format("[hdf5] rows of '{}': expected ({}), got "
                      "({}) at {}",
                      name, fmt::join(shape, ", "),
                      fmt::join(values.sizes().vec(), ", "), begin));
    }
    const std::lock_guard lock(hdf5_mutex());
    Handle dataset(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), H5Dclose);
    std::vector<int64_t> start(shape.size(), 0);
    start[0] = begin;
    const auto file_space = select_block(dataset, start, expected);
    const auto memory = memory_space(expected);
    check(H5Dwrite(dataset, memory_type(type), memory, file_space, H5P_DEFAULT,
                   values.data_ptr()) >= 0);
  }

  void set_note(const std::string& note) override {
    const std::lock_guard lock(hdf5_mutex());
    put_note(note);
  }

  void close() override {
    {
      const std::lock_guard lock(hdf5_mutex());
      check(H5Fflush(file_, H5F_SCOPE_GLOBAL) >= 0);
      check(file_.reset());
    }
    write_atomically(path_, [&](const fs::path& temporary) {
      fs::rename(partial_.path, temporary);
    });
  }

 private:
  void put_note(const std::string& note) const {
    if (note.empty()) return;
    if (note.size() >= kLongestNote) {
      throw UsageError("[hdf5] a note may have up to 64 KB");
    }
    Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(type, note.size() + 1);
    H5Tset_cset(type, H5T_CSET_UTF8);
    Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    Handle attribute(
        H5Acreate2(file_, "note", type, space, H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose);
    check(attribute.valid() && H5Awrite(attribute, type, note.c_str()) >= 0);
  }

  void check(bool good) const {
    if (!good) {
      throw FileError("cannot write " + path_.string(),
                      "is the disk full, or the folder not writable?");
    }
  }

  void create_array(const std::string& name, const StoredArray& array) {
    if (name.find('/') != std::string::npos) {
      throw UsageError(
          fmt::format("{}: HDF5 takes the '/' of '{}' for a folder",
                      path_.string(), name),
          "write a .csv file");
    }
    const auto extent = sizes(array.shape);
    Handle space(H5Screate_simple(static_cast<int>(extent.size()),
                                  extent.data(), nullptr),
                 H5Sclose);
    const hid_t stored =
        array.type == torch::kFloat64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
    Handle dataset(H5Dcreate2(file_, name.c_str(), stored, space, H5P_DEFAULT,
                              H5P_DEFAULT, H5P_DEFAULT),
                   H5Dclose);
    check(dataset.valid());
  }

  fs::path path_;
  std::map<std::string, StoredArray> arrays_;
  PartialFile partial_;
  Handle file_;  // closed before the partial file is removed
};

}  // namespace

std::unique_ptr<TensorReader> open_hdf5(const fs::path& path) {
  if (!has_checksums(path)) {
    // No other thread is inside the library while the process is copied; the
    // copy then has the library for itself.
    std::unique_lock lock(hdf5_mutex());
    if (!ends_well([&] {
          lock.unlock();
          Hdf5Reader(path).look_through();
        })) {
      throw DataError(path.string() + " is not an HDF5 file, or is damaged");
    }
  }
  auto reader = std::make_unique<Hdf5Reader>(path);
  reader->expect_own_numbers();
  return reader;
}

std::unique_ptr<TensorWriter> create_hdf5(
    const fs::path& path, const std::map<std::string, StoredArray>& arrays,
    const std::string& note) {
  return std::make_unique<Hdf5Writer>(path, arrays, note);
}

}  // namespace propagator::data
