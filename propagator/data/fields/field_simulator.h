#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "propagator/data/simulator.h"
#include "propagator/physics/fields/field_problem.h"

namespace propagator::data {

// How many cases of a problem are drawn, and which.
struct FieldCaseOptions {
  int64_t cases = 100, first = 0, seed = 0, batch = 0;
  physics::FieldCheck check = physics::FieldCheck::kRefined;

  void describe(config::Schema& schema);
};

// A family of initial-value problems as a file of fields (field_file.h).
class FieldSimulator : public Simulator {
 public:
  FieldSimulator(std::unique_ptr<physics::FieldProblem> problem, int64_t cases,
                 std::vector<Validation> validations);

  void describe(config::Schema& schema) override;
  void validate() const override;
  bool computes_in(Precision precision) const override;
  Simulated simulate(const Runtime& runtime) const override;
  // Case by case, so that a .h5 file may be larger than the memory.
  nlohmann::json write(const std::filesystem::path& out, const Runtime& runtime,
                       const Note& note) const override;
  std::vector<Validation> validations() const override { return rows_; }
  physics::FieldLayout layout() const { return problem_->layout(); }
  const physics::FieldProblem& problem() const { return *problem_; }

 private:
  using Numbers = std::map<std::string, double>;
  // Called with cases from `n` on, and with what the first one is worth.
  using Take = std::function<void(int64_t n, const physics::FieldCases& cases,
                                  const Numbers& numbers)>;
  void for_each_batch(const Runtime& runtime, const Take& take) const;
  void expect_room(const physics::FieldLayout& layout) const;  // UsageError

  std::unique_ptr<physics::FieldProblem> problem_;
  std::vector<Validation> rows_;
  FieldCaseOptions options_;
};

// What the fields of a simulation with these keys, each KEY=VALUE, will be;
// nothing of a simulator that computes none. ConfigError if a key is wrong.
std::optional<physics::FieldLayout> simulated_layout(
    const std::string& simulator, const std::vector<std::string>& settings);

// The simulator that a file's note says it is of, with the note's keys; null if
// it names none of fields, or keys that this program does not know.
std::unique_ptr<FieldSimulator> simulator_of(const nlohmann::json& note);

// All of them, for `simulators`.
Kinds<Simulator> field_simulators();

}  // namespace propagator::data
