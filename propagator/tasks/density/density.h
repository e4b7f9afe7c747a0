#pragma once

#include "propagator/models/density.h"
#include "propagator/tasks/density/inference_options.h"
#include "propagator/tasks/density/targets.h"
#include "propagator/tasks/drawing.h"
#include "propagator/tasks/generating.h"
#include "propagator/tasks/registry.h"

namespace propagator::tasks {

// The model of a density unless another is chosen.
inline constexpr const char* kDensity = "spline_flow";

struct DensityDataOptions {
  std::string file;
  std::vector<std::string> variables = {}, given = {}, supports = {};
  int64_t samples = 20000;
  int64_t validation = 4000;

  void describe(config::Schema& schema);
};

struct DensityEvalOptions {
  int64_t samples = 20000;
  int64_t draws = 200;
  int64_t two_sample = 5000;
  int64_t batch = 10000;

  void describe(config::Schema& schema);
};

// Task `density`: given samples, what is their distribution, and what would a
// new one look like? From the Lisbon lecture. Samples are those of a known
// distribution, whose entropy no model beats, the rows of a table, or pairs of
// a simulator, of which the posterior is learned.
class DensityTask : public Task, public Drawing, public Generating {
 public:
  explicit DensityTask(std::unique_ptr<models::DensityOptions> model);

  void describe(config::Schema& schema) override;
  std::map<std::string, std::string> defaults() const override;
  void validate() override;
  std::vector<config::UnusedOption> unused_options() const override;
  std::vector<std::string> inspect() override;
  std::vector<std::string> metric_names() const override;
  std::shared_ptr<torch::nn::Module> make_model() const override;
  void initialise(torch::nn::Module& model, int64_t seed) const override;
  std::vector<SimulatedFile> simulated_files() const override;
  void prepare(int64_t seed, const Runtime& runtime) override;
  void calibrate(torch::nn::Module& model) override;
  bool draws_test() const override { return target_ || inference_; }
  int64_t size(data::Split split) const override;
  train::Loss loss(torch::nn::Module& model, data::Split split,
                   const torch::Tensor& positions) override;
  void begin_step(torch::nn::Module& model, int64_t step) override;
  bool data_on_device() const override { return true; }
  Evaluation evaluate(torch::nn::Module& model, data::Split split) override;
  std::unique_ptr<Surrogate> surrogate(std::shared_ptr<torch::nn::Module> model,
                                       const Runtime& runtime) const override;
  void draw(torch::nn::Module& model, const Evaluation* evaluation,
            int64_t cases, report::Report& report) override;
  // Densities of rows with the same target beside one another.
  std::vector<NamedFigure> draw_rows(
      std::span<const ReproducedRow> rows) const override;
  // Of a target of two variables.
  std::optional<report::FieldMaps> maps(torch::nn::Module& model) override;

  std::vector<std::string> given_columns() const override;
  std::vector<std::string> generated_columns() const override {
    return shape().names;
  }
  NamedTensors generate(torch::nn::Module& model, const NamedTensors& given,
                        int64_t count, const RandomStream& stream,
                        const Runtime& runtime) const override;

 private:
  // On the device that uses them.
  struct Sample {
    torch::Tensor x, given;    // (N, D), (N, C)
    torch::Tensor noise = {};  // (N, K), uniform, of the loss
  };

  models::DensityShape shape() const;
  void validate_columns() const;
  // ConfigError if data.supports are not of the variables, or twice.
  nn::Supports supports() const;
  // Rows of the file, in the parts of a split.
  void read_file(int64_t seed);
  // DataError if one of x (N, D) cannot be.
  void expect_support(const torch::Tensor& x) const;
  void draw_target(int64_t seed);
  void draw_pairs(int64_t seed);
  void draw_noise(int64_t numbers);
  const Sample& sample(data::Split split) const;
  // (N), float64 on the CPU.
  torch::Tensor log_likelihoods(models::Density& model,
                                const Sample& sample) const;

  // With the exact posterior of the test's pairs, where our log densities are
  // `ours` (N); adds to the same as those below.
  void compare_to_exact(models::Density& model, const torch::Tensor& ours,
                        Evaluation& evaluation, report::Table& table) const;
  // The test by samples of each posterior; adds to numbers, metrics and table.
  void judge_posteriors(models::Density& model, const Sample& sample,
                        Evaluation& evaluation, report::Table& table) const;
  // The test by a network that tells new samples from those of the test.
  void judge_samples(models::Density& model, const Sample& sample,
                     Evaluation& evaluation, report::Table& table) const;
  // Of the first two unknowns, as samples are about the classical answer.
  void draw_posteriors(models::Density& model, report::Report& report) const;
  // Of the one or two unknowns of a question whose posterior is known.
  void draw_known_posteriors(models::Density& model,
                             report::Report& report) const;
  void draw_target_picture(models::Density& model, report::Report& report);

  TargetOptions target_options_;
  InferenceOptions inference_options_;
  DensityDataOptions data_options_;
  std::string model_name_ = kDensity;
  std::unique_ptr<models::DensityOptions> model_options_;
  DensityEvalOptions eval_options_;

  std::optional<Target> target_;
  std::shared_ptr<const Inference> inference_;
  Runtime runtime_;
  int64_t seed_ = 0;
  std::map<data::Split, Sample> samples_;
  torch::Tensor observed_;  // of the test, float64 on the CPU
  // (K), added to the noise of the training, modulo 1: other numbers for each
  // step, the same on every device.
  torch::Tensor turn_;
};

TaskKind density_kind();

}  // namespace propagator::tasks
