#pragma once

#include "propagator/models/locator.h"
#include "propagator/physics/detector/event_fit.h"
#include "propagator/tasks/drawing.h"
#include "propagator/tasks/locate/event_table.h"
#include "propagator/tasks/registry.h"

namespace propagator::tasks {

// The network that locates events unless another is chosen.
inline constexpr const char* kLocator = "hit_former";

enum class LocateLoss { kAuto, kSquares, kLikelihood };
enum class LocateMetric { kMedian, kResolution };

struct LocateDataOptions {
  std::string file;
  int64_t events = 32000;
  int64_t validation = 4000;
  int64_t resample_every = 0;

  void describe(config::Schema& schema);
};

struct LocateEvalOptions {
  int64_t events = 10000;
  int64_t classical = 2000;
  int64_t batch = 1024;
  LocateMetric metric = LocateMetric::kMedian;

  void describe(config::Schema& schema);
};

// The fits beside a network, as a result has them and in words.
struct FitName {
  const char *key, *text;
};
inline constexpr FitName kFits[] = {
    {"least_squares", "least squares"},
    {"maximum_likelihood", "maximum likelihood"}};

// Task `locate`: given which sensors of a detector fired, and when, where was
// the event? From the detector lecture. Events are simulated, or those of a
// file; classical fits of the same events stand beside the network's answers.
class Locate : public Task, public Drawing, public DataWriter {
 public:
  explicit Locate(std::unique_ptr<models::LocatorOptions> model);

  void describe(config::Schema& schema) override;
  std::map<std::string, std::string> defaults() const override;
  void validate() override;
  std::vector<config::UnusedOption> unused_options() const override;
  std::vector<std::string> inspect() override;
  std::string mode() const override;
  std::vector<std::string> metric_names() const override;
  void prepare(int64_t seed, const Runtime& runtime) override;
  bool draws_test() const override { return true; }
  std::shared_ptr<torch::nn::Module> make_model() const override;
  void initialise(torch::nn::Module& model, int64_t seed) const override;
  void begin_step(torch::nn::Module& model, int64_t step) override;
  int64_t size(data::Split split) const override;
  train::Loss loss(torch::nn::Module& model, data::Split split,
                   const torch::Tensor& positions) override;
  bool data_on_device() const override { return !model_options_->reads_back(); }
  Evaluation evaluate(torch::nn::Module& model, data::Split split) override;
  std::unique_ptr<Surrogate> surrogate(std::shared_ptr<torch::nn::Module> model,
                                       const Runtime& runtime) const override;
  void draw(torch::nn::Module& model, const Evaluation* evaluation,
            int64_t cases, report::Report& report) override;
  // Resolution against training, with that of least squares.
  std::vector<NamedFigure> draw_rows(
      std::span<const ReproducedRow> rows) const override;

  // The simulated events to train on, as a table of hits (event_table.h).
  std::string write_data(const std::string& path, int64_t seed,
                         const Runtime& runtime,
                         const std::string& note) const override;

  const physics::Detector& detector() const { return *detector_; }

 private:
  // Events on the device that uses them.
  struct Sample {
    torch::Tensor vertices, times, hits;  // (N, 3), (N, S), (N, S)
    torch::Tensor charges;                // (N, S), or undefined

    int64_t size() const { return vertices.size(0); }
    Sample slice(int64_t from, int64_t to) const;
    Sample select(const torch::Tensor& places) const;
    models::Hits seen_by(const torch::Tensor& sensors) const {
      return {times, hits, sensors, charges};
    }
  };

  // Events by how many sensors they hit, and by their shell about the centre.
  struct Classes {
    torch::Tensor hits, shells;  // (N)
  };
  static constexpr int64_t kRadii = 8;  // shells, of equal thickness

  models::DetectorShape shape() const;
  bool has_file() const { return !data_options_.file.empty(); }
  // Whether a file of hits names sensors by their places.
  bool by_place() const {
    return detector_options_.placement == physics::Placement::kFile &&
           sensors_file_.empty();
  }
  EventTable read_file() const;
  void prepare_file();
  // Simulated events of a split; for training those of the round.
  physics::Events draw_split(data::Split split, int64_t round) const;
  Sample to_device(const physics::Events& events) const;
  const Sample& sample(data::Split split) const;
  // The answers for all events, on the CPU in float64.
  models::Located locate(models::Locator& model, const Sample& events) const;
  // What the numbers of a test say: table, remarks, metrics, curves.
  Evaluation present(nlohmann::json numbers) const;
  // Events per second that the model locates.
  double rate_of(models::Locator& model, const Sample& events) const;
  // Medians of the errors of the first events.
  void add_medians(const std::string& key, const torch::Tensor& error,
                   const Classes& classes, nlohmann::json& result) const;
  // Fits of the first `count` test events.
  void add_fits(const Classes& classes, int64_t count,
                nlohmann::json& result) const;
  bool by_likelihood() const;
  void draw_event(models::Locator& model, int64_t index,
                  report::Report& report) const;
  void draw_attention(models::Locator& model, report::Report& report) const;

  physics::DetectorOptions detector_options_;
  std::string sensors_file_;
  LocateDataOptions data_options_;
  std::string model_name_ = kLocator;
  std::unique_ptr<models::LocatorOptions> model_options_;
  LocateLoss loss_kind_ = LocateLoss::kAuto;
  LocateEvalOptions eval_options_;

  std::optional<physics::Detector> detector_;
  Runtime runtime_;
  int64_t seed_ = 0;
  int64_t round_ = 0;  // of the training events
  std::map<data::Split, Sample> samples_;
  physics::Events test_events_;
  torch::Tensor sensors_;  // (S, 3)
};

// The answers for all events of `hits`, `batch` at a time, on the CPU in
// float64.
models::Located locate_all(models::Locator& model, const models::Hits& hits,
                           int64_t batch, const Runtime& runtime);

// Medians of the model and of the fits by the number of sensors hit.
report::LinePlot errors_by_hits(const nlohmann::json& numbers);

TaskKind locate_kind();

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::LocateLoss> {
  using enum tasks::LocateLoss;
  static constexpr std::pair<tasks::LocateLoss, const char*> all[] = {
      {kAuto, "auto"}, {kSquares, "squares"}, {kLikelihood, "likelihood"}};
};

template <>
struct Names<tasks::LocateMetric> {
  using enum tasks::LocateMetric;
  static constexpr std::pair<tasks::LocateMetric, const char*> all[] = {
      {kMedian, "median"}, {kResolution, "resolution"}};
};

}  // namespace propagator::config
