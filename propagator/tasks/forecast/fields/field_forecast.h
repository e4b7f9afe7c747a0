#pragma once

#include "propagator/data/fields/field_dataset.h"
#include "propagator/models/field_forecaster.h"
#include "propagator/tasks/drawing.h"
#include "propagator/tasks/explainable.h"
#include "propagator/tasks/forecast/fields/field_options.h"
#include "propagator/tasks/registry.h"

namespace propagator::tasks {

// The network for fields unless another is chosen.
inline constexpr const char* kFrameNet = "fno";

// Task `forecast` for any field: given the first frames, what does it do next?
class FieldForecast : public Task, public Drawing, public Explainable {
 public:
  explicit FieldForecast(std::unique_ptr<models::FrameNetOptions> model);

  void describe(config::Schema& schema) override;
  std::map<std::string, std::string> defaults() const override;
  // Looks into the file, where it is there, for what the options leave out.
  void validate() override;
  std::vector<config::UnusedOption> unused_options() const override;
  std::vector<std::string> inspect() override;
  std::vector<std::string> metric_names() const override;
  std::vector<SimulatedFile> simulated_files() const override;
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
  void begin_step(torch::nn::Module& model, int64_t step) override;
  void begin_slice(int64_t slice) override;
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
  std::optional<StepSubject> step_subject(torch::nn::Module& model) override;

  // What benches need to know: the fields, which validate() finds, and how
  // they are trained on and tested.
  const data::FieldLayout& layout() const { return layout_; }
  const FieldDataOptions& data_options() const { return data_options_; }
  const FieldLossOptions& loss_options() const { return loss_options_; }
  const FieldEvalOptions& eval_options() const { return eval_options_; }
  // That training sees at once, with those that it forecasts.
  int64_t window() const { return data_options_.given + loss_options_.frames; }
  // Opens this file, of the same layout, in the place of its own and of another
  // to test on.
  void open_instead(const std::string& file);

 private:
  // What the file or the simulation has, where the options leave it out.
  void take_layout(const data::FieldLayout& layout);
  models::FrameShape shape() const;
  // Frames that a model with a block mask answers at once; 0 of others.
  int64_t block() const {
    return model_options_->mask() == nn::MaskType::kBlock ? loss_options_.frames
                                                          : 0;
  }
  // How many are tested, of so many that cases have. ConfigError if they are
  // more than that.
  void settle_frames(int64_t later);
  // That a test forecasts, and cases of the split have room for.
  int64_t steps(data::Split split) const;
  // Where the cases of a split are.
  const data::FieldDataset& data(data::Split split) const {
    return split == data::Split::kTest && test_ ? *test_ : *data_;
  }
  // DataError unless fields of the two files are alike.
  void expect_alike(const data::FieldLayout& test) const;
  void draw_noise();  // for this slice of this training step, in place
  void expect_symmetry(const std::vector<int64_t>& nodes) const;  // ConfigError
  // What the model is told of some cases.
  models::Told told(const data::FieldBatch& cases) const;
  // Forecasts from the given frames of whole cases alone: (B, steps, …).
  torch::Tensor forecast(models::FieldForecaster& model,
                         const data::FieldBatch& cases, int64_t steps,
                         const std::function<void(int64_t)>& progress) const;
  // The function that a test evaluates, in its batches and its precision.
  NamedTensors test_path(models::FieldForecaster& model,
                         const data::FieldBatch& cases) const;
  // Whole cases as `predict` takes them.
  NamedTensors named(const data::FieldBatch& cases) const;
  // What `predict` asks, of so many frames.
  std::unique_ptr<Surrogate> surrogate(std::shared_ptr<torch::nn::Module> model,
                                       const Runtime& runtime,
                                       int64_t steps) const;
  // Adds the answer of the file's own solver, at most as slow as ours; and the
  // drift of sums that are conserved. Both of the cases of a test.
  void add_classical(nlohmann::json& result, data::Split split) const;
  std::vector<std::string> conserved(data::Split split) const;
  Evaluation present(nlohmann::json numbers) const;
  // Frames of some whole cases, given ones first: truth and forecast, (N, T,
  // nodes…, C) each, on the CPU.
  struct Shown {
    int64_t first;  // case
    torch::Tensor truth, answer;
    torch::Tensor constants;  // (N, nodes…, K); undefined if K is 0
  };
  Shown shown(models::FieldForecaster& model, data::Split split, int64_t first,
              int64_t count) const;
  // One channel of them over a plane, (N, T, R, C): of three axes the first
  // two, at a node of the third; of one axis (N, 1, T, X).
  report::FieldSeries series(const Shown& shown, int64_t channel,
                             int64_t node) const;
  std::string plane_name(int64_t node) const;  // "z = 0.5"
  // Fields to look at node by node, all channels and some planes.
  report::FieldSeries explored(const Shown& shown) const;
  void draw_constants(const Shown& shown, report::Report& report) const;
  void draw_channel(const Shown& shown, int64_t channel,
                    report::Report& report) const;
  report::Axis axis(size_t d) const;

  FieldDataOptions data_options_;
  std::string model_name_ = kFrameNet;
  models::Answer answer_ = models::Answer::kChange;
  std::unique_ptr<models::FrameNetOptions> model_options_;
  FieldLossOptions loss_options_;
  FieldEvalOptions eval_options_;

  data::FieldLayout layout_;  // of the file; no times where it is not there
  std::unique_ptr<data::FieldDataset> data_, test_;  // that of a test file
  torch::Tensor told_;  // columns of the file's numbers of each case, (P)
  int64_t seed_ = 0, step_ = 0, slice_ = 0;
  torch::Tensor noise_;  // on the frames that this slice of the step sees
  std::unique_ptr<SymmetricViews> views_;  // where there is a symmetry
  torch::Tensor first_view_;               // of this training step, scalar
  Runtime runtime_;
};

}  // namespace propagator::tasks
