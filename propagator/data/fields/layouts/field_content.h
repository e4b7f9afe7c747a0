#pragma once

#include <memory>
#include <optional>

#include "propagator/data/fields/field_file.h"
#include "propagator/data/split.h"

namespace propagator::data {

struct FieldChoices;

// What an axis of a stored array is: an axis of space by its number, or
inline constexpr int64_t kCaseAxis = -1, kTimeAxis = -2, kChannelAxis = -3;

// An array that holds some channels of some cases. What it has no axis of is
// the same for all: a field without time is constant.
struct FieldPiece {
  std::shared_ptr<const TensorReader> reader;
  std::string array;
  std::vector<int64_t> shape;  // of the array
  std::vector<int64_t> roles;  // of its axes; several may be of channels

  int64_t channels() const;
  bool is_constant() const;  // in time
};

// Consecutive cases whose channels are in the same arrays, one behind another,
// and so their constant inputs.
struct FieldRun {
  int64_t cases;
  std::vector<FieldPiece> pieces;
  std::vector<FieldPiece> constants = {};
};

// What a reader of one layout found in a file or folder.
struct FieldContent {
  std::string kind;  // what it was taken for: "PDEBench, …"
  FieldLayout layout;
  std::vector<FieldRun> runs;
  torch::Tensor parameters = {};           // (N, P); undefined if P is 0
  std::optional<SplitIndices> split = {};  // where the files have their own
  std::vector<std::string> remarks = {};   // what else they say
  nlohmann::json note = nlohmann::json::object();
  bool known = true;  // a layout with a name, not just an array
  bool boundaries_known = false;
  bool nan_is_zero = false;

  int64_t cases() const;
  std::vector<int64_t> nodes() const;
};

// Cases [begin, begin + count) of the run, frames [first, first + frames).
torch::Tensor read_run(const FieldRun& run, const std::vector<int64_t>& nodes,
                       int64_t begin, int64_t count, int64_t first,
                       int64_t frames);

// Constants of the same, (count, nodes…, K).
torch::Tensor read_constants(const FieldRun& run,
                             const std::vector<int64_t>& nodes, int64_t begin,
                             int64_t count);

// Of pieces that a reader has left among channels those without time become
// inputs, or are left out, as is chosen; remarks say which. ConfigError if
// there are none of a chosen name.
void part_constants(FieldContent& content, const FieldChoices& choices);
// Whether arrays without time that nobody named are inputs: where channels are
// named there are no others, so that a run has always those that it began with.
bool finds_constants(const FieldChoices& choices);

// DataError unless arrays, axes, names and numbers belong together.
void check_content(const std::string& path, const FieldContent& content);

// Numbers of an array that should rise along an axis of `count` entries: those
// of the first case where each has its own, without the last where there is one
// too many. Undefined where they do not.
torch::Tensor rising_places(const TensorReader& reader, const std::string& name,
                            int64_t count);
// The same or, with a remark, 0, 1, 2 …
torch::Tensor places_or_numbers(const TensorReader& reader,
                                const std::string& name, int64_t count,
                                FieldContent& content);

// A file that is open, and how errors and remarks call it.
struct OpenFields {
  std::string path;
  std::shared_ptr<const TensorReader> reader;

  FieldPiece piece(const std::string& array, std::vector<int64_t> roles) const;
};

// Readers of one layout each: nothing where a file is of another.
std::optional<FieldContent> read_own_fields(const OpenFields& file);
std::optional<FieldContent> read_well_file(const OpenFields& file);
std::optional<FieldContent> read_pdebench(const OpenFields& file);
std::optional<FieldContent> read_fno_mat(const OpenFields& file);
// Any array, as the choices say, or as it looks.
FieldContent read_any_array(const OpenFields& file,
                            const FieldChoices& choices);
// What a file is by the first of these that knows it.
FieldContent read_field_file(const std::filesystem::path& path,
                             const FieldChoices& choices);
// A folder with train, valid and test, each of files; or of .npy files.
FieldContent read_field_folder(const std::filesystem::path& path,
                               const FieldChoices& choices);

// Names of the axes of an array of that shape, cases and time first; none if
// it may be several.
std::vector<std::string> guessed_axes(const std::vector<int64_t>& shape);

// The roles of axes with these names. DataError, with `path`, unless they are
// of time, one to three of space, and cases unless each file is one.
struct NamedAxes {
  std::vector<int64_t> roles;
  std::vector<std::string> space;
};
NamedAxes named_axes(const std::string& path, const std::string& array,
                     const std::vector<int64_t>& shape,
                     const std::vector<std::string>& names, bool with_cases);

}  // namespace propagator::data
