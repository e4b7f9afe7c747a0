#include "propagator/tasks/locate/locate.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"

namespace propagator::tasks {

using models::as_locator;
using torch::Tensor;

void LocateDataOptions::describe(config::Schema& s) {
  s.field("file", file,
          {.help = "file of hits with the events' places, to train and test on "
                   "in place of simulated ones; .csv, .h5, .npz or .mat",
           .file = true,
           .later = true});
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
  if (has_file()) data::expect_table(data_options_.file);
  if (from_file == sensors_file_.empty() && !(by_place() && has_file())) {
    throw ConfigError(
        "sensors",
        from_file ? "detector.placement: file needs one"
                  : "only detector.placement: file reads one",
        from_file ? "name a file with x, y, z, or a data.file with sensor_x, "
                    "sensor_y, sensor_z"
                  : "");
  }
  if (from_file) {
    detector_ = physics::make_detector(
        detector_options_, by_place() ? read_sensor_places(data_options_.file)
                                      : read_sensors(sensors_file_));
  } else {
    detector_ = physics::make_detector(detector_options_);
  }
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
  auto unused = model_options_->unused_options();
  const auto add = [&](std::initializer_list<const char*> keys,
                       const char* why) {
    for (const char* key : keys) unused.push_back({key, why});
  };
  const auto placement = detector_options_.placement;
  if (placement != physics::Placement::kPlane) {
    add({"detector.columns", "detector.rows", "detector.spacing",
         "detector.plane_z"},
        "only placement: plane has it");
    if (placement != physics::Placement::kFile) {
      add({"detector.side"}, "only sensors on a plane have a side");
    }
  }
  if (has_file()) {
    add({"data.events", "data.validation", "data.resample_every",
         "eval.events"},
        "a file has as many events as it has");
  }
  return unused;
}

std::string Locate::mode() const {
  return detector_options_.efficiency == physics::Efficiency::kPublished
             ? "published"
             : "honest";
}

models::DetectorShape Locate::shape() const {
  const auto& half = detector().volume().half();
  const bool flat = detector_options_.placement == physics::Placement::kPlane;
  return {.sensors = detector().sensors(),
          .size = flat ? 2 * *std::ranges::max_element(half)
                       : detector_options_.size,
          .light_speed = detector().light_speed(),
          .event_time_known = detector().time_known(),
          .charge = detector_options_.charge};
}

bool Locate::by_likelihood() const {
  return loss_kind_ == LocateLoss::kLikelihood ||
         (loss_kind_ == LocateLoss::kAuto && model_options_->has_uncertainty());
}

std::shared_ptr<torch::nn::Module> Locate::make_model() const {
  return model_options_->make(shape());
}

void Locate::initialise(torch::nn::Module& model, int64_t seed) const {
  as_locator(model).initialise(seed);
}

train::Loss Locate::loss(torch::nn::Module& module, data::Split split,
                         const Tensor& positions) {
  const auto events = sample(split).select(positions.to(runtime_.device));
  const auto& truth = events.vertices;
  const auto located = as_locator(module).forward(events.seen_by(sensors_));
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
          "INPUT has a row for each hit: `event`, `sensor` (from 1; or "
          "`sensor_x`, `sensor_y`,\n`sensor_z` if it was trained so), `time` "
          "(ns) and, with detector.charge, `charge`;\nOUTPUT gets `event`, "
          "`x`, `y`, `z` (m) and, if the model gives them, their errors.\n"
          "  propagator predict runs/corners --input hits.csv --output "
          "places.csv"};
}

}  // namespace propagator::tasks
