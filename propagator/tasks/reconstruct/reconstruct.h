#pragma once

#include "propagator/tasks/reconstruct/function_net.h"
#include "propagator/tasks/reconstruct/posterior.h"
#include "propagator/tasks/reconstruct/reconstruct_options.h"
#include "propagator/tasks/reconstruct/sensors.h"
#include "propagator/tasks/solve/solve.h"

namespace propagator::tasks {

// The network that rebuilds fields unless another is chosen.
inline constexpr const char* kReconstructor = "pinn";

// Task `reconstruct`: given scattered readings of some fields, what are all of
// them everywhere? From the PGT paper. The problem of `solve`, whose conditions
// may be few or none, with one term more in the loss: how far the fields are
// from what was read. A field that is never read, such as a pressure, follows
// from the equations.
class Reconstruct : public Solve {
 public:
  using Solve::Solve;

  void describe(config::Schema& schema) override;
  std::map<std::string, std::string> defaults() const override;
  std::vector<std::string> inspect() override;
  std::vector<SimulatedFile> simulated_files() const override;
  void prepare(int64_t seed, const Runtime& runtime) override;
  std::shared_ptr<torch::nn::Module> make_model() const override;
  void calibrate(torch::nn::Module& model) override;
  std::vector<std::string> metric_names() const override;
  void draw_model(torch::nn::Module& model, report::Report& report) override;

 protected:
  pde::Posed posed() const override { return pde::Posed::kByReadings; }
  void validate_own() override;
  std::vector<OwnTerm> own_terms() override;
  // The standard deviation of a reading of each field, where it is predicted.
  Quantities own_quantities() const override;
  SolveReference::Freedoms freedoms() const override;
  int64_t outputs() const override;
  models::FieldDomain domain() const override;
  void measure(models::FieldNet& model, nlohmann::json& numbers) override;
  void present_own(const nlohmann::json& numbers,
                   Evaluation& evaluation) const override;
  // Those that trained.
  Readings readings_of(int64_t field) const override;
  // Predicted deviations beside errors, and how well they are calibrated.
  void draw_own(models::FieldNet& model, report::Report& report) override;
  // Of a truth in a file, more snapshots than the test takes.
  Explored explored(models::FieldNet& model, const Answer& answer) override;

 private:
  // Beside the network's fields: functions that are sought.
  std::vector<std::shared_ptr<FunctionNet>> make_functions() const;
  void validate_unknowns(bool drawn) const;
  // DataError of readings that are fewer than what they are to tell.
  void expect_enough_readings() const;
  bool predicts_variance() const {
    return reading_loss_.kind != ReadingLoss::kMse;
  }
  // Of the model alone, without those of a SpreadNet behind them.
  int64_t network_outputs() const;
  // Sensors as training needs them, on the device.
  struct Read {
    torch::Tensor windows;   // (M, T, D)
    torch::Tensor readings;  // (M, K) of the fields that are read
    torch::Tensor known;     // (M, K), 1 where there is a reading, else 0
    torch::Tensor share;     // scalar, √(M K / readings)
  };
  Read on_device(const Sensors& sensors) const;
  // Of the fields that may be read. DataError if one must be.
  void find_never_read();
  // How far answers are from readings, (M, K), 0 where there are none, and the
  // logarithms of the variances that the network expects, undefined if it says
  // nothing of them; in units of each field's spread.
  struct Misfit {
    torch::Tensor error, log_variance = {};
  };
  Misfit misfit_of(models::FieldNet& model, const Read& at) const;
  // What the loss adds for variances that never move the fields.
  torch::Tensor faithful_likelihood(models::FieldNet& model,
                                    const Misfit& training) const;
  // The test's points as new sensors; undefined where no truth is known.
  std::optional<Read> new_readings();
  // What was found of each unknown parameter: value, interval, truth if known.
  nlohmann::json unknowns_of(models::FieldNet& model);
  // Standard deviations of all, as they are sought, from the Jacobian of the
  // loss; nothing if it has none, or one that is too large.
  std::optional<Posterior> posterior_of(models::FieldNet& model);
  // Of a reading, in units of each field's spread, where `used` numbers of
  // those that trained made the field.
  double noise_of(models::FieldNet& model, double used) const;
  // Of one, by conjugate gradients; `said` gets how it was found.
  double deviation_of(models::FieldNet& model, int64_t unknown,
                      nlohmann::json& said);
  // What was found of a function, over its variables, and its truth if known.
  nlohmann::json function_of(models::FieldNet& model,
                             const pde::UnknownFunction& function) const;
  void draw_functions(models::FieldNet& model, report::Report& report) const;
  // |error| / predicted standard deviation of the readings there are, (n).
  torch::Tensor deviations_of(models::FieldNet& model, const Read& at) const;
  static torch::Tensor deviations_of(const Misfit& misfit, const Read& at);
  void draw_uncertainty(models::FieldNet& model, report::Report& report);
  // Of one variable: the fields with their intervals, and the readings.
  void draw_bands(models::FieldNet& model, report::Report& report);
  // Those of a field.
  Readings readings_in(const Sensors& sensors, int64_t field) const;
  // By which share of the spread each field is off at sensors, in the mean
  // square, and how many readings lie in the intervals that were predicted.
  nlohmann::json fit_of(models::FieldNet& model, const Read& at) const;

  SensorOptions sensor_options_;
  TruthOptions truth_options_;
  ReadingLossOptions reading_loss_;
  FunctionOptions function_options_;

  // Made by `validate`.
  std::vector<int64_t> measured_;  // fields
  // Made by `prepare`.
  std::vector<int64_t> never_read_;  // of those, what a file does not have
  SensorSplit sensors_;
  int64_t seed_ = 0;
  Read training_, held_out_;
  torch::Tensor mean_, spread_;  // (K), of what was read
  torch::Tensor columns_;        // (K), of the fields that are read
  torch::Tensor spread_there_, columns_there_;  // on the device
  torch::Tensor log_units_there_;  // (K), of variances: log spread²
};

TaskKind reconstruct_kind();

}  // namespace propagator::tasks
