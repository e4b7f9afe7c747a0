#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace propagator::data {

// Named arrays and a note (JSON text) in one file that other programs read:
// HDF5 (.h5, .hdf5) or NumPy's .npz; MATLAB's .mat, without a note, can be
// read. The format follows the file's ending.
using Tensors = std::map<std::string, torch::Tensor>;

struct TensorFile {
  Tensors tensors;
  std::string note;  // HDF5: root attribute `note`; npz: bytes named `note`
};

void save_tensors(const std::filesystem::path& path, const TensorFile& content);
TensorFile load_tensors(const std::filesystem::path& path);

// A file whose arrays are too large to hold: rows are read one range at a
// time. Only HDF5 can do this; the others are loaded whole.
class TensorReader {
 public:
  static std::unique_ptr<TensorReader> open(const std::filesystem::path& path);
  virtual ~TensorReader() = default;

  // The arrays of numbers; those in an HDF5 file's groups by their path,
  // "group/name".
  using Shapes = std::map<std::string, std::vector<int64_t>>;
  virtual const Shapes& shapes() const = 0;
  // What else the file holds that is no array of numbers.
  virtual std::vector<std::string> unread() const { return {}; }
  // An HDF5 file's groups by their path, and the attributes of a group or array
  // ("" is the file): texts, and numbers or truth. Empty where there are none.
  virtual std::vector<std::string> groups() const { return {}; }
  virtual std::vector<std::string> attributes(const std::string&) const {
    return {};
  }
  virtual std::vector<std::string> texts(const std::string& /*object*/,
                                         const std::string& /*name*/) const {
    return {};
  }
  virtual std::vector<double> numbers(const std::string& /*object*/,
                                      const std::string& /*name*/) const {
    return {};
  }
  virtual std::string note() const = 0;
  // A part of an array: along each axis `count` entries from `begin` on.
  virtual torch::Tensor block(const std::string& name,
                              const std::vector<int64_t>& begin,
                              const std::vector<int64_t>& count) const = 0;
  // The same of the first axis; an array of none has no rows.
  torch::Tensor rows(const std::string& name, int64_t begin,
                     int64_t count) const;
  // DataError if the file has no such array.
  std::vector<int64_t> shape(const std::string& name) const;
  torch::Tensor all(const std::string& name) const;

 protected:
  explicit TensorReader(std::filesystem::path path) : path_(std::move(path)) {}
  // DataError if the array has no such part.
  void expect_inside(const std::string& name, const std::vector<int64_t>& begin,
                     const std::vector<int64_t>& count) const;
  [[noreturn]] void fail_to_read(const std::string& name,
                                 const std::vector<int64_t>& begin,
                                 const std::vector<int64_t>& count) const;
  std::filesystem::path path_;
};

// The same for writing: rows are appended to arrays declared at the start.
class TensorWriter {
 public:
  static std::unique_ptr<TensorWriter> create(
      const std::filesystem::path& path, torch::ScalarType type,
      const std::map<std::string, std::vector<int64_t>>& shapes,
      const std::string& note);
  virtual ~TensorWriter() = default;

  virtual void write_rows(const std::string& name, int64_t begin,
                          const torch::Tensor& rows) = 0;
  // Of a file that was made without one.
  virtual void set_note(const std::string& note) = 0;
  // Flushes and closes; nothing is complete before.
  virtual void close() = 0;
};

enum class TensorFormat { kHdf5, kNpz, kMat };
bool is_tensor_file(const std::filesystem::path& path);  // by its ending
// Of a file to read; UsageError unless it ends in .h5, .hdf5, .npz or .mat.
TensorFormat tensor_format(const std::filesystem::path& path);
// Of a file to write; UsageError unless it ends in .h5, .hdf5 or .npz.
TensorFormat written_format(const std::filesystem::path& path);

}  // namespace propagator::data
