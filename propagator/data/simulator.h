#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "propagator/core/device.h"
#include "propagator/core/kinds.h"
#include "propagator/data/tensor_file.h"

namespace propagator::data {

// What a simulator computed: the arrays of a file, and numbers that say what
// they are worth.
struct Simulated {
  Tensors tensors;
  nlohmann::json numbers;
  // What else the file's note is to say.
  nlohmann::json note = nlohmann::json::object();
};

// One of those numbers, and where literature or theory has it.
struct Band {
  std::string number;
  double min = 0, max = 0;
  std::string source;  // who says so
};

// A check of a simulator against what is known: one run, or several on grids
// that are each `ratio` times as fine as the one before, of which
// `order_NUMBER` says how fast NUMBER converges:
//   log(|coarse - middle| / |middle - fine|) / log(ratio) of the last three.
struct Validation {
  std::string name, help;
  std::vector<std::vector<std::string>> runs;  // each: KEY=VALUE, as after -s
  std::vector<Band> bands;
  double ratio = 0;
  std::vector<std::string> refined = {};  // the NUMBERs
};

// A simulation that `propagator data generate NAME` writes to a file. A new one
// is a class with its options, and a line in `simulators`.
class Simulator {
 public:
  virtual ~Simulator() = default;
  virtual void describe(config::Schema& schema) = 0;
  virtual void validate() const = 0;
  // Whether it can; all can in fp64.
  virtual bool computes_in(Precision precision) const {
    return precision == Precision::kFloat64;
  }
  virtual Simulated simulate(const Runtime& runtime) const = 0;
  // Computes it into a file, and returns the numbers. `note` makes the file's
  // note of all but the tensors. Large ones may be written some rows at a time.
  using Note = std::function<std::string(const Simulated&)>;
  virtual nlohmann::json write(const std::filesystem::path& out,
                               const Runtime& runtime, const Note& note) const;
  virtual std::vector<Validation> validations() const { return {}; }
};

const Kinds<Simulator>& simulators();

}  // namespace propagator::data
