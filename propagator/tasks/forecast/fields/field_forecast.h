#pragma once

#include "propagator/data/fields/field_dataset.h"
#include "propagator/models/field_forecaster.h"
#include "propagator/tasks/drawing.h"
#include "propagator/tasks/explainable.h"
#include "propagator/tasks/registry.h"

namespace propagator::tasks {

// The network for fields unless another is chosen.
inline constexpr const char* kFrameNet = "fno";

// In the place of names.
inline constexpr const char* kAllOfThem = "all";
inline constexpr const char* kNoneOfThem = "none";

struct FieldDataOptions {
  std::string file, simulator;
  std::vector<std::string> simulation;
  data::FieldChoices choices;
  std::vector<std::string> parameters = {kAllOfThem};
  int64_t given = 5;
  data::Storage storage = data::Storage::kAuto;

  void describe(config::Schema& schema);
  // The names of what the model is told of each case.
  std::vector<std::string> told() const;
};

// What a network sees as it learns to go on: true frames, or its own.
enum class TrainedOn { kTruth, kOwn };

struct FieldLossOptions {
  int64_t frames = 1;
  TrainedOn inputs = TrainedOn::kTruth;

  void describe(config::Schema& schema);
};

struct FieldEvalOptions {
  int64_t batch = 16;
  int64_t cases = 0;
  int64_t steps = 0;

  void describe(config::Schema& schema);
};

// Task `forecast` for any field: given the first frames, what does it do next?
class FieldForecast : public Task, public Drawing, public Explainable {
 public:
  explicit FieldForecast(std::unique_ptr<models::FrameNetOptions> model);

  void describe(config::Schema& schema) override;
  std::map<std::string, std::string> defaults() const override;
  // Looks into the file, where it is there, for what the options leave out.
  void validate() override;
  std::vector<std::string> inspect() override;
  std::vector<std::string> metric_names() const override;
  std::optional<SimulatedFile> simulated_file() const override;
  void prepare(int64_t seed, const Runtime& runtime) override;
  std::shared_ptr<torch::nn::Module> make_model() const override;
  void initialise(torch::nn::Module& model, int64_t seed) const override;
  void calibrate(torch::nn::Module& model) override;
  train::NamedTensors state() const override;
  void restore(const train::NamedTensors& saved) override;
  int64_t size(data::Split split) const override;
  train::Loss loss(torch::nn::Module& model, data::Split split,
                   const torch::Tensor& positions) override;
  void expect(const torch::Tensor& positions) override;
  bool data_on_device() const override { return data_->in_memory(); }
  Evaluation evaluate(torch::nn::Module& model, data::Split split) override;
  std::unique_ptr<Surrogate> surrogate(std::shared_ptr<torch::nn::Module> model,
                                       const Runtime& runtime) const override;
  void draw(torch::nn::Module& model, const Evaluation* evaluation,
            int64_t cases, report::Report& report) override;
  std::optional<report::FieldSeries> fields(torch::nn::Module& model,
                                            data::Split split, int64_t first,
                                            int64_t count) override;
  std::optional<AuditSubject> audit_subject(torch::nn::Module& model) override;

 private:
  // What the file or the simulation has, where the options leave it out.
  void take_layout(const data::FieldLayout& layout);
  models::FrameShape shape() const;
  int64_t window() const { return data_options_.given + loss_options_.frames; }
  int64_t steps() const;  // that cases have room for
  // What the model is told of some cases, (B, P).
  torch::Tensor told(const data::FieldBatch& cases) const;
  // Forecasts from the given frames of whole cases alone: (B, steps, …).
  torch::Tensor forecast(models::FieldForecaster& model,
                         const data::FieldBatch& cases,
                         const std::function<void(int64_t)>& progress) const;
  Evaluation present(nlohmann::json numbers) const;
  // Frames of whole cases, given ones first, (N, T, R, C) of a channel: over
  // two axes, with a third through its middle.
  report::FieldSeries series(models::FieldForecaster& model, data::Split split,
                             int64_t first, int64_t count,
                             int64_t channel) const;
  // Of one axis: space to the right, time downwards.
  void draw_lines(models::FieldForecaster& model, int64_t cases,
                  report::Report& report) const;
  report::Axis axis(size_t d) const;

  FieldDataOptions data_options_;
  std::string model_name_ = kFrameNet;
  models::Answer answer_ = models::Answer::kChange;
  std::unique_ptr<models::FrameNetOptions> model_options_;
  FieldLossOptions loss_options_;
  FieldEvalOptions eval_options_;

  data::FieldLayout layout_;  // of the file; no times where it is not there
  std::unique_ptr<data::FieldDataset> data_;
  torch::Tensor told_;  // columns of the file's numbers of each case, (P)
  Runtime runtime_;
};

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::TrainedOn> {
  using enum tasks::TrainedOn;
  static constexpr std::pair<tasks::TrainedOn, const char*> all[] = {
      {kTruth, "truth"}, {kOwn, "own"}};
};

}  // namespace propagator::config
