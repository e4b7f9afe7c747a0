#pragma once

#include "propagator/data/plate_dataset.h"
#include "propagator/kernels/plate_loss.h"
#include "propagator/models/forecaster.h"
#include "propagator/tasks/calibrated.h"
#include "propagator/tasks/drawing.h"
#include "propagator/tasks/explainable.h"
#include "propagator/tasks/forecast/spread.h"
#include "propagator/tasks/generating.h"
#include "propagator/tasks/registry.h"

namespace propagator::tasks {

enum class PhysicsUnits { kRate, kStep };
enum class Normalisation { kNone, kPublished };
enum class Protocol { kHonest, kPublished };
// How frames count: by their mean square error, or by the likelihood of normal
// numbers whose variance the network predicts at each node.
enum class FrameLoss { kMse, kHeteroscedastic };
// By what predicted deviations are multiplied, so that validation cases are
// covered as they should be: nothing, one number, or one for each frame.
enum class SpreadScale { kNone, kOverall, kFrame };

// The weights of the loss, mse + physics + boundary + initial (+ correlation).
struct ForecastLossOptions {
  double mse = 1;
  double physics = 0.001;
  double boundary = 0.1;
  double initial = 0.1;
  double correlation = 0;
  double steady = 0;
  FrameLoss frames = FrameLoss::kMse;
  PhysicsUnits physics_units = PhysicsUnits::kRate;
  Normalisation normalisation = Normalisation::kNone;

  void describe(config::Schema& schema);
};

struct ForecastEvalOptions {
  int64_t batch = 16;
  int64_t cases = 0;
  Protocol protocol = Protocol::kHonest;
  int64_t stride = 5;
  SpreadScale calibration = SpreadScale::kFrame;
  int64_t draws = 32;
  int64_t drawn_cases = 64;

  void describe(config::Schema& schema);
};

// The frames that tables and pictures show: the first hidden ones, the middle,
// the last (6, 200 and 400 of the heat-plate paper's 401).
struct ShownFrames {
  int64_t early, middle, late;
  ShownFrames(int64_t visible, int64_t frames)
      : early(std::min(visible + 1, frames - 1)),
        middle(frames / 2),
        late(frames - 1) {}
};

// Task `forecast`: given the first frames of a heat plate, what does it do
// next? From the heat-plate paper. Histories of a file that does not say that
// they are of heat have nothing of heat in their loss, test and pictures.
class Forecast : public Task,
                 public Drawing,
                 public Explainable,
                 public DataWriter,
                 public Calibrated,
                 public Continuing,
                 public Combining {
 public:
  explicit Forecast(std::unique_ptr<models::ForecasterOptions> model);

  void describe(config::Schema& schema) override;
  void validate() override;
  std::vector<config::UnusedOption> unused_options() const override;
  std::string mode() const override;
  std::vector<std::string> metric_names() const override;
  void prepare(int64_t seed, const Runtime& runtime) override;
  bool draws_test() const override { return data_options_.file.empty(); }
  std::shared_ptr<torch::nn::Module> make_model() const override;
  void calibrate(torch::nn::Module& model) override;
  // What tells the data file from another.
  train::NamedTensors state() const override;
  void restore(const train::NamedTensors& saved) override;
  int64_t size(data::Split split) const override;
  train::Loss loss(torch::nn::Module& model, data::Split split,
                   const torch::Tensor& positions) override;
  bool data_on_device() const override;
  Evaluation evaluate(torch::nn::Module& model, data::Split split) override;
  std::unique_ptr<Surrogate> surrogate(std::shared_ptr<torch::nn::Module> model,
                                       const Runtime& runtime) const override;

  void draw(torch::nn::Module& model, const Evaluation* evaluation,
            int64_t cases, report::Report& report) override;
  void draw_model(torch::nn::Module& model, report::Report& report) override;
  std::optional<report::FieldSeries> fields(torch::nn::Module& model,
                                            data::Split split, int64_t first,
                                            int64_t count) override;
  std::optional<AuditSubject> audit_subject(torch::nn::Module& model) override;
  std::optional<PropagatorSubject> propagator_subject(
      torch::nn::Module& model) override;

  // Plates, solved and written as they come.
  std::string write_data(const std::string& path, int64_t seed,
                         const Runtime& runtime,
                         const std::string& note) const override;

  NamedTensors measure_calibration(torch::nn::Module& model) override;
  bool is_calibrated() const override {
    return !predicts_variance() || spread_.has_value();
  }
  void use_calibration(const NamedTensors& measured) override;

  NamedTensors given_cases(int64_t count) const override;
  std::map<std::string, std::vector<int64_t>> trajectory_shapes(
      torch::nn::Module& model, const NamedTensors& given,
      int64_t count) const override;
  void continue_cases(torch::nn::Module& model, const NamedTensors& given,
                      int64_t count, const RandomStream& stream,
                      const Runtime& runtime, const TakeRows& take) override;

  std::shared_ptr<torch::nn::Module> combine(
      const std::vector<std::shared_ptr<torch::nn::Module>>& members)
      const override;

  const physics::HeatPlateOptions& plate() const { return plate_; }

 private:
  // The paper's test of this plate and mask, leak included, whatever the sizes;
  // and whether these are the paper's too.
  std::optional<Metric> published() const;
  bool has_published_sizes() const;
  void expect_alpha_if_used(const models::Forecaster& model) const;
  // What the numbers of a test say: table, remarks, metrics, curves.
  Evaluation present(nlohmann::json numbers) const;
  models::FieldShape shape() const;
  void draw_mask(const torch::Tensor& mask, int64_t visible,
                 report::Report& report) const;
  kernels::PlateLossInputs loss_inputs(const torch::Tensor& prediction,
                                       const data::PlateBatch& batch,
                                       PhysicsUnits units,
                                       int64_t visible) const;
  // The model's answer for a batch under the protocol: (B, T, R, C). Where it
  // is honest, hidden frames do not reach the model.
  torch::Tensor forecast(models::Forecaster& model,
                         const data::PlateBatch& batch,
                         const std::function<void(int64_t)>& progress) const;
  // The same as the test does it: in its batches, in its precision.
  NamedTensors test_path(models::Forecaster& model,
                         const data::PlateBatch& cases) const;

  bool predicts_variance() const {
    return loss_options_.frames == FrameLoss::kHeteroscedastic;
  }
  // What a checkpoint came with, or, of another model, measured now; the scale
  // is the one that eval.calibration asks for.
  Spread spread_of(models::Forecaster& model);
  torch::Tensor chosen_scale(const Spread& spread, int64_t visible) const;
  Spread measure_spread(models::Forecaster& model);
  void measure_scale(models::Forecaster& model, Spread& spread);
  DrawOptions draw_options(int64_t first_case) const;
  // Cases of a split whose spread is measured.
  int64_t spread_cases(data::Split split, bool autoregressive) const;
  // How often the truth is inside the intervals that are predicted.
  nlohmann::json measure_coverage(models::Forecaster& model, data::Split split);
  void draw_bands(torch::nn::Module& model, const Evaluation* evaluation,
                  report::Report& report);

  report::Axis x_axis() const;
  report::Axis y_axis() const;

  physics::HeatPlateOptions plate_;
  data::PlateDataOptions data_options_;
  std::string model_name_ = "heat_former";
  std::unique_ptr<models::ForecasterOptions> model_options_;
  ForecastLossOptions loss_options_;
  ForecastEvalOptions eval_options_;
  std::unique_ptr<data::PlateDataset> data_;
  Runtime runtime_;               // of the data
  std::optional<Spread> spread_;  // of the run's own model
};

// UsageError unless they are cases (N, frames, rows, cols) with as many frames
// as a model is given, at least; and a positive number of each case.
void expect_first_frames(const torch::Tensor& fields,
                         const models::FieldShape& shape, int64_t visible);
void expect_alpha(const torch::Tensor& alpha, int64_t cases);

TaskKind forecast_kind();

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::PhysicsUnits> {
  using enum tasks::PhysicsUnits;
  static constexpr std::pair<tasks::PhysicsUnits, const char*> all[] = {
      {kRate, "rate"}, {kStep, "step"}};
};

template <>
struct Names<tasks::Normalisation> {
  using enum tasks::Normalisation;
  static constexpr std::pair<tasks::Normalisation, const char*> all[] = {
      {kNone, "none"}, {kPublished, "published"}};
};

template <>
struct Names<tasks::FrameLoss> {
  using enum tasks::FrameLoss;
  static constexpr std::pair<tasks::FrameLoss, const char*> all[] = {
      {kMse, "mse"}, {kHeteroscedastic, "heteroscedastic"}};
};

template <>
struct Names<tasks::SpreadScale> {
  using enum tasks::SpreadScale;
  static constexpr std::pair<tasks::SpreadScale, const char*> all[] = {
      {kNone, "none"}, {kOverall, "overall"}, {kFrame, "frame"}};
};

template <>
struct Names<tasks::Protocol> {
  using enum tasks::Protocol;
  static constexpr std::pair<tasks::Protocol, const char*> all[] = {
      {kHonest, "honest"}, {kPublished, "published"}};
};

}  // namespace propagator::config
