#include "propagator/tasks/locate/locate.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/tasks/locate/event_table.h"

namespace propagator::tasks {

using models::as_locator;
using torch::Tensor;

namespace {

// Where the events of a split begin in the ensemble of a seed; training has all
// before them.
constexpr int64_t kValidationBegin = int64_t{1} << 40;
constexpr int64_t kTestBegin = int64_t{1} << 41;

}  // namespace

void LocateDataOptions::describe(config::Schema& s) {
  s.field("events", events, {.help = "how many events to train on", .min = 1});
  s.field("validation", validation,
          {.help = "how many events validation uses",
           .min = 1,
           .formerly = "data.held_back"});
  s.field("resample_every", resample_every,
          {.help = "steps after which the training events are resampled; 0 "
                   "keeps the first ones",
           .unit = "steps",
           .min = 0,
           .formerly = "data.redraw_every"});
}

void LocateEvalOptions::describe(config::Schema& s) {
  s.field("events", events, {.help = "how many events are tested", .min = 1});
  s.field("classical", classical,
          {.help = "how many events of the test classical fits locate too",
           .min = 0});
  s.field("batch", batch,
          {.help = "events of one forward pass in a test",
           .min = 1,
           .memory = true});
  s.field("metric", metric,
          {.help = "metric by which runs are compared: the median distance, or "
                   "the resolution of the detector lecture"});
}

Locate::Locate(std::unique_ptr<models::LocatorOptions> model)
    : model_options_(std::move(model)) {}

void Locate::describe(config::Schema& s) {
  using enum config::Role;
  s.section("detector", detector_options_);
  s.field("sensors", sensors_file_,
          {.help = "file with the sensors' positions x, y, z (m), for "
                   "detector.placement: file; beside the configuration",
           .file = true});
  s.section("data", data_options_);
  s.field("model.name", model_name_,
          {.help = "name of the network; `propagator list` shows the names",
           .role = kModel});
  s.section("model", *model_options_, kModel);
  s.field("loss.kind", loss_kind_,
          {.help = "mean square of coordinates, or minus the log likelihood of "
                   "a normal distribution; auto takes the likelihood if the "
                   "model gives an uncertainty",
           .role = kLoss});
  s.section("eval", eval_options_, kEvaluation);
}

std::map<std::string, std::string> Locate::defaults() const {
  return {{"train.batch", "32"},
          {"train.epochs", "100"},
          {"optimizer.kind", "adam"},
          {"schedule.lr", "0.001"}};
}

void Locate::validate() {
  detector_options_.validate();
  const bool from_file =
      detector_options_.placement == physics::Placement::kFile;
  if (from_file == sensors_file_.empty()) {
    throw ConfigError("sensors",
                      from_file ? "detector.placement: file needs one"
                                : "only detector.placement: file reads one");
  }
  detector_ = from_file ? physics::make_detector(detector_options_,
                                                 read_sensors(sensors_file_))
                        : physics::make_detector(detector_options_);
  model_options_->validate(shape());
  const int64_t unknowns = detector().time_known() ? 3 : 4;
  if (eval_options_.classical > 0 && detector_options_.trigger < unknowns) {
    throw ConfigError(
        "detector.trigger",
        fmt::format("classical fits need {} hits, as many as unknowns",
                    unknowns),
        fmt::format("set detector.trigger={} or more, or eval.classical=0 for "
                    "a test without them",
                    unknowns));
  }
  if (loss_kind_ == LocateLoss::kLikelihood &&
      !model_options_->has_uncertainty()) {
    throw ConfigError("loss.kind", "this model gives no uncertainty",
                      "set loss.kind=squares, or model.name=hit_former");
  }
}

std::vector<config::UnusedOption> Locate::unused_options() const {
  return model_options_->unused_options();
}

std::vector<std::string> Locate::inspect() {
  const auto events = physics::draw_events(detector(), 0, 0, 10000);
  const auto hits = events.hits.sum(1).to(torch::kFloat64);
  return {fmt::format("{} sensors, light at {:.4g} m/ns", detector().sensors(),
                      detector().light_speed()),
          fmt::format("{:.3g} % of flashes reach the trigger of {} hits; then "
                      "{:.3g} sensors fire in the mean",
                      100 * events.triggered(), detector_options_.trigger,
                      hits.mean().item<double>())};
}

std::string Locate::mode() const {
  return detector_options_.efficiency == physics::Efficiency::kPublished
             ? "published"
             : "honest";
}

models::DetectorShape Locate::shape() const {
  return {.sensors = detector().sensors(),
          .size = detector_options_.size,
          .light_speed = detector().light_speed(),
          .event_time_known = detector().time_known()};
}

bool Locate::by_likelihood() const {
  return loss_kind_ == LocateLoss::kLikelihood ||
         (loss_kind_ == LocateLoss::kAuto && model_options_->has_uncertainty());
}

physics::Events Locate::draw_split(data::Split split, int64_t round) const {
  switch (split) {
    case data::Split::kTrain:
      return physics::draw_events(detector(), seed_,
                                  round * data_options_.events,
                                  data_options_.events);
    case data::Split::kValidation:
      return physics::draw_events(detector(), seed_, kValidationBegin,
                                  data_options_.validation);
    default:
      return physics::draw_events(detector(), seed_, kTestBegin,
                                  eval_options_.events);
  }
}

Locate::Sample Locate::to_device(const physics::Events& events) const {
  const auto options = runtime_.options();
  return {events.vertices.to(options), events.times.to(options),
          events.hits.to(runtime_.device)};
}

void Locate::prepare(int64_t seed, const Runtime& runtime) {
  seed_ = seed;
  runtime_ = runtime;
  round_ = 0;
  sensors_ = detector().positions().to(runtime.options());
  test_events_ = draw_split(data::Split::kTest, 0);
  samples_.clear();
  samples_[data::Split::kTest] = to_device(test_events_);
  for (const auto split : {data::Split::kTrain, data::Split::kValidation}) {
    samples_[split] = to_device(draw_split(split, 0));
  }
}

const Locate::Sample& Locate::sample(data::Split split) const {
  const auto found = samples_.find(split);
  if (found != samples_.end()) return found->second;
  throw UsageError("[locate] expected the split train, validation or test",
                   "events are simulated: there is no file of all of them");
}

std::shared_ptr<torch::nn::Module> Locate::make_model() const {
  return model_options_->make(shape());
}

void Locate::initialise(torch::nn::Module& model, int64_t seed) const {
  as_locator(model).initialise(seed);
}

void Locate::begin_step(torch::nn::Module&, int64_t step) {
  if (data_options_.resample_every == 0) return;
  const int64_t round = step / data_options_.resample_every;
  if (round == round_) return;
  const auto fresh = to_device(draw_split(data::Split::kTrain, round));
  auto& events = samples_.at(data::Split::kTrain);
  // In place: a graph of the step reads them there.
  events.vertices.copy_(fresh.vertices);
  events.times.copy_(fresh.times);
  events.hits.copy_(fresh.hits);
  round_ = round;
}

int64_t Locate::size(data::Split split) const { return sample(split).size(); }

train::Loss Locate::loss(torch::nn::Module& module, data::Split split,
                         const Tensor& positions) {
  const auto& events = sample(split);
  const auto at = positions.to(runtime_.device);
  const auto truth = events.vertices.index_select(0, at);
  const auto located =
      as_locator(module).forward({events.times.index_select(0, at),
                                  events.hits.index_select(0, at), sensors_});
  const auto squares = (located.position - truth).square().mean();
  const auto resolution = squares.detach().sqrt();
  if (!by_likelihood()) {
    return {squares,
            {{"squares", 1, squares.detach()}, {"resolution", 0, resolution}}};
  }
  const auto likelihood = models::gaussian_nll(located, truth);
  return {
      likelihood,
      {{"likelihood", 1, likelihood.detach()}, {"resolution", 0, resolution}}};
}

TaskKind locate_kind() {
  return {
      .help =
          "given which sensors of a detector fired, and when, where was it?",
      .make =
          [](const config::Document& document) {
            return std::make_unique<Locate>(
                find_kind(models::locators(), document, "model.name", kLocator)
                    .options());
          },
      .models = helps_of(models::locators()),
      .files =
          "INPUT has a row for each hit: `event`, `sensor` (from 1) and "
          "`time` (ns);\nOUTPUT gets `event`, `x`, `y`, `z` (m) and, if "
          "the model gives them, their errors.\n  propagator predict "
          "runs/corners --input hits.csv --output places.csv"};
}

}  // namespace propagator::tasks
