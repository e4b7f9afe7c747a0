#pragma once

#include <memory>
#include <optional>

#include "propagator/data/fields/field_file.h"
#include "propagator/data/split.h"

namespace propagator::data {

// What a user says of an array of fields; what is left out is found in the
// file, or guessed where only one thing can be meant.
struct FieldChoices {
  std::string array = "";                    // "fields", or "group/name"
  std::vector<std::string> axes = {};        // case, time, x …, channel
  std::vector<std::string> channels = {};    // names
  std::vector<std::string> constants = {};   // names, or kNoConstants
  std::vector<std::string> boundaries = {};  // of each axis, or one for all

  void describe(config::Schema& schema);
};

// In the place of names of constant inputs.
inline constexpr const char* kNoConstants = "none";

struct FieldContent;

// Fields of many cases from a file or folder of one of these layouts:
// - a file of ours (field_file.h);
// - The Well: a file, or a folder with train, valid and test, whose split
// holds;
// - PDEBench: one array, an array for each quantity, a group for each case;
// - `u`, `a` and `t` of a .mat, time last; a folder of .npy files, each a case;
// - any array of an .h5, .npz or .mat. Of such an array
//     (cases, time, x), (cases, time, x, y), (cases, time, x, y, z)
//   with or without channels at the end is guessed by its shape: an axis of up
//   to 8 behind longer ones is that of channels. Arrays with one number of each
//   case are its parameters, those named t, x, y and z the places.
// Fields without time, of arrays (cases, space…[, channels]), are constant
// inputs: those that are named, or all if no channels are.
// Where a layout does not say it, an axis whose ends differ as neighbours do is
// periodic. DataError where it cannot be told or is wrong: axes that do not
// rise, names that are no plain text, numbers that are not finite.
class FieldSource {
 public:
  FieldSource(const std::filesystem::path& path, const FieldChoices& choices);

  const std::filesystem::path& file() const { return file_; }  // or folder
  const FieldLayout& layout() const { return layout_; }
  int64_t cases() const { return cases_; }
  int64_t frames() const { return layout_.times.numel(); }
  // Along each axis.
  std::vector<int64_t> nodes() const;
  // (N, P) float64; undefined if P is 0.
  const torch::Tensor& parameters() const;
  // The files' own split, or one by the seed. DataError where there are too few
  // cases for that.
  SplitIndices split(int64_t seed, const SplitShares& shares = {}) const;
  bool has_split() const;
  // What else the note of a file of ours says.
  const nlohmann::json& note() const;
  // Cases [begin, begin + count): (count, T, nodes…, C) float32.
  torch::Tensor values(int64_t begin, int64_t count) const;
  // The same of frames [first, first + frames) alone.
  torch::Tensor values(int64_t begin, int64_t count, int64_t first,
                       int64_t frames) const;
  // Constant inputs of cases [begin, begin + count): (count, nodes…, K)
  // float32; undefined if K is 0.
  torch::Tensor constants(int64_t begin, int64_t count) const;
  // Which layout, in words; whether it is one of those that have a name, or an
  // array whose axes are said or guessed.
  const std::string& kind() const;
  bool is_known() const;
  // What else was found and done: attributes, what is left out.
  const std::vector<std::string>& remarks() const;
  // What the file was taken for, in a line.
  std::string describe() const;

 private:
  // Of all runs with cases in [begin, begin + count), one behind another.
  template <class Read>
  torch::Tensor read_runs(int64_t begin, int64_t count, Read read) const;
  void set_boundaries(const std::vector<std::string>& wanted);
  void expect_finite(const torch::Tensor& numbers, int64_t begin,
                     int64_t first) const;

  std::filesystem::path file_;
  std::string path_;  // as messages have it
  std::shared_ptr<const FieldContent> content_;
  int64_t cases_ = 0;
  FieldLayout layout_;
  bool guessed_ = false;  // the boundaries
};

// Whether it is there and may be read as fields, by its ending or, of a folder,
// by what is in it. (A .pt is one too, so that somebody says how to convert
// it.)
bool is_field_path(const std::filesystem::path& path);

// Fields in one of the layouts that have a name; nothing where a file has
// another.
std::optional<FieldSource> known_fields(const std::filesystem::path& path);

}  // namespace propagator::data
