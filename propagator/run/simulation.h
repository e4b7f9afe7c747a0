#pragma once

#include <filesystem>
#include <memory>

#include "propagator/data/simulator.h"
#include "propagator/tasks/task.h"

namespace propagator::run {

// One simulation as it was asked for: a simulator by name, its keys, and where
// to compute. The keys are those of a configuration, with `device`, `threads`,
// `precision` and `simulator`, its name, before the simulator's own.
class Simulation {
 public:
  // UsageError if there is no simulator of that name; ConfigError, with the
  // place, if a key is unknown or wrong.
  Simulation(const std::string& name, config::Document document);

  static bool is_known(const std::string& name);

  const std::string& name() const { return name_; }
  const config::Schema& schema() const { return schema_; }
  const data::Simulator& simulator() const { return *simulator_; }
  std::string yaml() const { return config::to_yaml(schema_, true); }
  std::string hash() const;  // SHA-256 of all keys that decide numbers
  Runtime runtime() const;
  int64_t threads() const { return threads_; }

  // Computes it. What it says while it does is for this thread's observer.
  data::Simulated run() const;

 private:
  std::string name_, device_ = "auto";
  int64_t threads_ = 1;
  Precision precision_ = Precision::kFloat64;
  std::unique_ptr<data::Simulator> simulator_;
  config::Schema schema_;
};

// What a name means: a file, a configuration that comes with the program
// (data/ring, or ring for short), or a simulator, with no key of its own.
config::Document document_of(const std::string& name);
// The simulator whose keys a document has, if it is no experiment:
// `simulator: advection`.
std::optional<std::string> simulator_of(const config::Document& document);

// Computes it and writes .h5 or .npz, whole or not at all; the note has the
// keys, the code and the numbers. Returns the numbers.
nlohmann::json write_simulation(const Simulation& simulation,
                                const std::filesystem::path& out);

// Computes the files of a task that are to be simulated and are not there yet,
// on that device. UsageError if what is there was simulated with other keys.
void provide_simulated_files(const tasks::Task& task,
                             const std::string& device);

// Which validations of a simulator to compute, and where to write them.
struct ValidationRequest {
  std::string simulator;
  std::vector<std::string> rows;  // none: all of them
  config::Document where = {};    // device and threads
  std::filesystem::path out = "results";
  bool draft = false;
};

struct ValidationResult {
  nlohmann::json summary;  // as its file under `out` has it
  bool within = true;      // every number is in its band
};

// Computes each row and writes OUT/SIMULATOR/ROW.json: the numbers, their bands
// and the time. UsageError, before anything is computed, for an unknown row,
// and for a program that was built from changed sources, unless it is a draft.
std::vector<ValidationResult> validate_simulator(
    const ValidationRequest& request);

}  // namespace propagator::run
