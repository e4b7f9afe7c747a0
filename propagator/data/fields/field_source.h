#pragma once

#include <memory>

#include "propagator/data/fields/field_file.h"

namespace propagator::data {

// What a user says of an array of fields; what is left out is found in the
// file, or guessed where only one thing can be meant.
struct FieldChoices {
  std::string array = "";                    // "fields", or "group/name"
  std::vector<std::string> axes = {};        // case, time, x …, channel
  std::vector<std::string> channels = {};    // names
  std::vector<std::string> boundaries = {};  // of each axis, or one for all

  void describe(config::Schema& schema);
};

// Fields of many cases from a file: one of ours (field_file.h), or any array of
// an .h5, .npz or .mat. Of such an array
//   (cases, time, x), (cases, time, x, y), (cases, time, x, y, z)
// with or without channels at the end is guessed by its shape: an axis of up to
// 8 behind longer ones is that of channels. Arrays with one number of each case
// are its parameters, those named t, x, y and z the places. An axis whose ends
// differ as neighbours do is periodic. DataError where it cannot be told or is
// wrong: axes that do not rise, numbers that are not finite.
class FieldSource {
 public:
  FieldSource(const std::filesystem::path& path, const FieldChoices& choices);

  const FieldLayout& layout() const { return layout_; }
  int64_t cases() const { return shape_.front(); }
  // Along each axis.
  std::vector<int64_t> nodes() const;
  // (N, P) float64; undefined if P is 0.
  const torch::Tensor& parameters() const { return parameters_; }
  // Cases [begin, begin + count): (count, T, nodes…, C) float32.
  torch::Tensor values(int64_t begin, int64_t count) const;
  // What the file was taken for, in a line.
  std::string describe() const;

 private:
  void read_array(const FieldChoices& choices);
  void choose_array(const std::string& wanted);
  void name_axes(const std::vector<std::string>& wanted);
  void read_beside();
  void set_boundaries(const std::vector<std::string>& wanted);
  torch::Tensor places(const std::string& name, int64_t count) const;
  torch::Tensor in_order(const torch::Tensor& rows) const;
  Boundary guess_boundary(int64_t axis) const;
  [[noreturn]] void fail(const std::string& what,
                         const std::string& hint = "") const;

  std::string path_;
  std::shared_ptr<TensorReader> reader_;
  std::string array_;
  std::vector<int64_t> shape_;  // cases, time, nodes…, channels
  std::vector<int64_t> order_;  // of the array's axes, to have them so
  bool has_channels_ = false;   // or the array has no axis of them
  torch::Tensor loaded_;        // all, where cases do not come first
  FieldLayout layout_;
  torch::Tensor parameters_;
  bool guessed_ = false;
};

}  // namespace propagator::data
