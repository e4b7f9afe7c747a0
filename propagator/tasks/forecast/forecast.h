#pragma once

#include "propagator/data/plate_dataset.h"
#include "propagator/models/forecaster.h"
#include "propagator/train/task.h"

namespace propagator::tasks {

enum class PhysicsUnits { kRate, kStep };
enum class Normalisation { kNone, kPublished };
enum class Protocol { kHonest, kPublished };

// The weights of the loss, mse + physics + boundary + initial (+ correlation).
struct ForecastLossOptions {
  double mse = 1;
  double physics = 0.001;
  double boundary = 0.1;
  double initial = 0.1;
  double correlation = 0;
  PhysicsUnits physics_units = PhysicsUnits::kRate;
  Normalisation normalisation = Normalisation::kNone;

  void describe(config::Schema& schema);
};

struct ForecastEvalOptions {
  int64_t batch = 16;
  int64_t cases = 0;
  Protocol protocol = Protocol::kHonest;
  int64_t stride = 5;

  void describe(config::Schema& schema);
};

// The frames that tables and pictures show: the first hidden ones, the middle,
// the last (6, 200 and 400 of the document's 401).
struct ShownFrames {
  int64_t early, middle, late;
  ShownFrames(int64_t visible, int64_t frames)
      : early(std::min(visible + 1, frames - 1)),
        middle(frames / 2),
        late(frames - 1) {}
};

// Task `forecast`: given the first frames of a heat plate, what does it do
// next? The heat-plate paper.
class Forecast : public train::Task {
 public:
  explicit Forecast(std::unique_ptr<models::ForecasterOptions> model);

  void describe(config::Schema& schema) override;
  void validate() override;
  std::string mode() const override;
  void prepare(int64_t seed, const Runtime& runtime) override;
  std::shared_ptr<torch::nn::Module> make_model() const override;
  void calibrate(torch::nn::Module& model) override;
  // What tells the data file from another.
  std::map<std::string, torch::Tensor> state() const override;
  void restore(const std::map<std::string, torch::Tensor>& saved) override;
  int64_t size(data::Split split) const override;
  train::Loss loss(torch::nn::Module& model, data::Split split,
                   const torch::Tensor& positions) override;
  bool data_on_device() const override;
  nlohmann::json evaluate(torch::nn::Module& model, data::Split split) override;
  train::Summary summary(const nlohmann::json& result) const override;
  std::vector<train::Metric> metrics(
      const nlohmann::json& result) const override;
  // The heat-plate paper's test loss for this plate and mask, leak included;
  // nothing for sizes and time steps that it has not.
  std::optional<double> document_value() const override;
  report::LinePlot curves(const nlohmann::json& result) const override;
  void draw(torch::nn::Module& model, const nlohmann::json& result,
            int64_t cases, report::Report& report) override;
  void draw_model(torch::nn::Module& model, report::Report& report) override;
  std::optional<report::FieldSeries> fields(torch::nn::Module& model,
                                            data::Split split, int64_t first,
                                            int64_t count) override;
  std::optional<train::AuditSubject> audit_subject(
      torch::nn::Module& model) override;
  std::optional<train::PropagatorSubject> propagator_subject(
      torch::nn::Module& model) override;
  std::string predict(torch::nn::Module& model, const std::string& input,
                      const std::string& output,
                      const Runtime& runtime) override;

  const physics::HeatPlateOptions& plate() const { return plate_; }
  const data::PlateDataOptions& data_options() const { return data_options_; }

 private:
  // The document's number whatever the sizes, to be shown with a remark.
  std::optional<double> document_mse() const;
  models::FieldShape shape() const;
  // The model's answer for a batch under the protocol: (B, T, R, C).
  torch::Tensor forecast(models::Forecaster& model,
                         const data::PlateBatch& batch,
                         const std::function<void(int64_t)>& progress) const;

  report::Axis x_axis() const { return {"x (m)", 0, plate_.width}; }
  report::Axis y_axis() const { return {"y (m)", plate_.height, 0}; }

  physics::HeatPlateOptions plate_;
  data::PlateDataOptions data_options_;
  std::string model_name_ = "heat_former";
  std::unique_ptr<models::ForecasterOptions> model_options_;
  ForecastLossOptions loss_options_;
  ForecastEvalOptions eval_options_;
  std::unique_ptr<data::PlateDataset> data_;
};

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
struct Names<tasks::Protocol> {
  using enum tasks::Protocol;
  static constexpr std::pair<tasks::Protocol, const char*> all[] = {
      {kHonest, "honest"}, {kPublished, "published"}};
};

}  // namespace propagator::config
