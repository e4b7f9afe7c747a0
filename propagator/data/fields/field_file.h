#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "propagator/data/tensor_file.h"
#include "propagator/physics/fields/field_problem.h"

namespace propagator::data {

using physics::Boundary;
using physics::FieldAxis;
using physics::FieldLayout;

// Fields of many cases on one grid, as simulators write them and forecasts read
// them. In a file: `fields` (N, T, space…, C) float32, `t` and each axis by its
// name float64, `parameters` (N, P) float64 and `constants` (N, space…, K)
// float32 where cases have any. The note says "layout": "fields", and under
// `axes`, `channels`, `boundaries`, `parameters` and, if there are any,
// `constants` what they are.
struct FieldSet {
  FieldLayout layout;
  torch::Tensor values = {};      // (N, T, space…, C), float32
  torch::Tensor parameters = {};  // (N, P), float64; undefined if P is 0
  nlohmann::json note = nlohmann::json::object();  // all that the note says
  torch::Tensor constants = {};  // (N, space…, K), float32; or undefined

  int64_t cases() const { return values.size(0); }
};

// The arrays of such a file, and what its note must say of them. UsageError if
// the shapes do not belong together.
Tensors field_tensors(const FieldSet& set);
nlohmann::json field_note(const FieldLayout& layout);

void write_field_set(const std::filesystem::path& path, const FieldSet& set);

// The same as .h5, cases some at a time; the file is there once it is closed.
class FieldWriter {
 public:
  FieldWriter(const std::filesystem::path& path, const FieldLayout& layout,
              int64_t cases);
  // Cases from `begin` on: values (n, T, space…, C), parameters (n, P),
  // constants (n, space…, K).
  void write(int64_t begin, const torch::Tensor& values,
             const torch::Tensor& parameters,
             const torch::Tensor& constants = {});
  // `note` says at least what `field_note` does.
  void close(const std::string& note);

 private:
  std::unique_ptr<TensorWriter> writer_;
  bool has_parameters_, has_constants_;
};

// A file of fields, of which cases are read some at a time. Whatever is wrong
// with it is a DataError: arrays that are missing or of wrong shape, names that
// are no plain words, axes that do not rise, numbers that are not finite.
class FieldReader {
 public:
  static bool is_field_file(const TensorReader& reader);
  explicit FieldReader(const std::filesystem::path& path);

  const FieldLayout& layout() const { return layout_; }
  const torch::Tensor& parameters() const { return parameters_; }
  const nlohmann::json& note() const { return note_; }
  int64_t cases() const { return cases_; }
  // Cases [begin, begin + count).
  torch::Tensor values(int64_t begin, int64_t count) const;
  // Of all cases; undefined if there are none.
  torch::Tensor constants() const;

 private:
  void read_layout();
  void read_axes();
  void check_constants() const;
  torch::Tensor line(const std::string& name, int64_t count) const;
  std::vector<std::string> words(const char* key) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  std::unique_ptr<TensorReader> reader_;
  nlohmann::json note_;
  FieldLayout layout_;
  torch::Tensor parameters_;
  int64_t cases_ = 0;
};

// All of it.
FieldSet read_field_set(const std::filesystem::path& path);

}  // namespace propagator::data
