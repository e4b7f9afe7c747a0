#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace propagator::testing {

// An HDF5 file as other programs write it: groups, attributes that are truth,
// numbers or texts, in the earliest format or in the one whose headers have
// checksums. Groups of an array's path are made where they are missing.
class StoredFields {
 public:
  explicit StoredFields(const std::filesystem::path& path,
                        bool checksums = false);
  ~StoredFields();
  StoredFields(const StoredFields&) = delete;
  StoredFields& operator=(const StoredFields&) = delete;

  void group(const std::string& name);
  void array(const std::string& name, const torch::Tensor& values);
  // Truth as an enumeration of one byte, as h5py stores it.
  void mask(const std::string& name, const torch::Tensor& values);
  // Of an object, "/" being the file.
  void flags(const std::string& object, const std::string& name,
             const std::vector<bool>& values, bool one = false);
  void text(const std::string& object, const std::string& name,
            const std::string& value);
  void texts(const std::string& object, const std::string& name,
             const std::vector<std::string>& values);
  void number(const std::string& object, const std::string& name, double value);
  // Eight numbers in one chunk whose bytes say that LZF packed them.
  void packed(const std::string& name);

 private:
  void attribute(const std::string& object, const std::string& name,
                 int64_t type, int64_t count, const void* values);

  int64_t file_;
};

}  // namespace propagator::testing
