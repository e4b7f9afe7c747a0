#include "propagator/tasks/forecast/forecast.h"

#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/tasks/calibration.h"
#include "propagator/tasks/forecast/fields/field_forecast.h"
#include "propagator/tasks/forecast/same_data.h"
#include "propagator/tasks/loss_weight.h"

namespace propagator::tasks {
namespace {

using models::as_forecaster;

// Enough for a standard deviation to one or two per cent.
constexpr int64_t kCalibrationCases = 2048;
constexpr const char* kDataFile = "data";  // in a checkpoint

// 1 - correlation of predicted and true pattern of each frame, averaged.
torch::Tensor decorrelation(const torch::Tensor& prediction,
                            const torch::Tensor& truth) {
  const auto centred = [](const torch::Tensor& x) {
    const auto nodes = x.flatten(2);
    return nodes - nodes.mean(-1, /*keepdim=*/true);
  };
  const auto p = centred(prediction), t = centred(truth);
  return (1 - torch::cosine_similarity(p, t, -1)).mean();
}

// The prediction up to the first frame that a plate reaches by a step in which
// no node changes by more than `change`, that frame included; from there on the
// truth, which leaves nothing to learn.
torch::Tensor until_steady(const torch::Tensor& prediction,
                           const torch::Tensor& truth, double change) {
  const int64_t steps = truth.size(1) - 1;
  const auto largest = (truth.narrow(1, 1, steps) - truth.narrow(1, 0, steps))
                           .abs()
                           .amax({2, 3});  // (B, T - 1)
  const auto moved = (largest > change).to(torch::kInt64).cumprod(1);
  const auto counts = torch::cat(
      {torch::ones_like(moved.narrow(1, 0, 1)),
       torch::ones_like(moved.narrow(1, 0, 1)), moved.narrow(1, 0, steps - 1)},
      1);
  return torch::where(counts.to(torch::kBool).unsqueeze(-1).unsqueeze(-1),
                      prediction, truth);
}

}  // namespace

void ForecastLossOptions::describe(config::Schema& s) {
  s.field("mse", mse, loss_weight("weight of the mean square error"));
  s.field("physics", physics,
          loss_weight("weight of the heat equation's residual"));
  s.field("boundary", boundary,
          loss_weight("weight of the plate's edges, the boundary condition"));
  s.field("initial", initial,
          loss_weight("weight of the visible frames, the initial condition"));
  s.field("correlation", correlation,
          loss_weight("weight of 1 - correlation of each frame"));
  s.field("steady", steady,
          {.help = "a plate is steady once no node changes by more than this "
                   "from one frame to the next, and its later frames do not "
                   "count in training; 0: all frames count",
           .min = 0,
           .max = 1e6,
           .later = true});
  s.field("frames", frames,
          {.help = "how frames count: mse, or heteroscedastic, by the "
                   "likelihood with a variance that the network predicts at "
                   "each node",
           .role = config::Role::kModel,
           .later = true});
  s.field("physics_units", physics_units,
          {.help = "rate: the residual is per second, as in the heat-plate "
                   "paper; step: it is per time step"});
  s.field("normalisation", normalisation,
          {.help = "published divides the residual by its own deviation, which "
                   "makes the term constant"});
}

void ForecastEvalOptions::describe(config::Schema& s) {
  s.field("batch", batch,
          {.help = "cases of one forward pass in a test",
           .min = 1,
           .memory = true});
  s.field("cases", cases,
          {.help = "how many cases of the split are tested; 0 tests all",
           .min = 0});
  s.field("protocol", protocol,
          {.help = "honest: forecasts from the visible frames alone; "
                   "published: the heat-plate paper's, which feeds the truth"});
  s.field("stride", stride,
          {.help = "frames that the published protocol replaces in each pass",
           .min = 1});
  s.field("calibration", calibration,
          {.help = "factor of predicted deviations, such that 90 % of the "
                   "validation cases' nodes are inside their interval: none, "
                   "one overall, or one for each frame",
           .later = true});
  s.field("draws", draws,
          {.help = "trajectories drawn of a case to find the spread of an "
                   "autoregressive model",
           .min = 2,
           .max = 100000,
           .memory = true,
           .later = true});
  s.field("drawn_cases", drawn_cases,
          {.help = "cases of validation and of test that an autoregressive "
                   "model draws trajectories of; 0 takes all",
           .min = 0,
           .later = true});
}

Forecast::Forecast(std::unique_ptr<models::ForecasterOptions> model)
    : model_options_(std::move(model)) {}

void Forecast::describe(config::Schema& s) {
  using enum config::Role;
  s.section("plate", plate_);
  s.section("data", data_options_);
  s.field("model.name", model_name_,
          {.help = "name of the network; `propagator list` shows the names",
           .role = kModel});
  s.section("model", *model_options_, kModel);
  s.section("loss", loss_options_, kLoss);
  s.section("eval", eval_options_, kEvaluation);
}

void Forecast::validate() {
  plate_.validate();
  model_options_->validate(shape());
  if (!model_options_->honest() &&
      eval_options_.protocol == Protocol::kHonest) {
    throw ConfigError("eval.protocol",
                      "expected published: a model with published inputs can "
                      "only be tested on the truth",
                      "set eval.protocol=published or model.inputs=honest");
  }
  if (predicts_variance() && loss_options_.steady > 0) {
    throw ConfigError("loss.steady",
                      "expected 0: a variance is of all frames, those of a "
                      "steady plate too",
                      "set loss.steady=0 or loss.frames=mse");
  }
  if (predicts_variance() && mode() != "honest") {
    throw ConfigError("loss.frames",
                      "expected mse: the variance of a forecast that is given "
                      "the truth says nothing",
                      "set model.inputs=honest and eval.protocol=honest");
  }
}

std::vector<config::UnusedOption> Forecast::unused_options() const {
  if (!predicts_variance()) {
    const char* why = "loss.frames=mse predicts no variance";
    return {{"eval.calibration", why},
            {"eval.draws", why},
            {"eval.drawn_cases", why}};
  }
  if (model_options_->autoregressive()) return {};
  const char* why =
      "deviations of a model that gives all frames at once are "
      "known without drawing";
  return {{"eval.draws", why}, {"eval.drawn_cases", why}};
}

std::string Forecast::mode() const {
  const bool honest =
      model_options_->honest() && eval_options_.protocol == Protocol::kHonest;
  return honest ? "honest" : "published";
}

models::FieldShape Forecast::shape() const {
  return {plate_.frames, plate_.rows, plate_.cols, predicts_variance()};
}

void Forecast::prepare(int64_t seed, const Runtime& runtime) {
  runtime_ = runtime;
  data_ = std::make_unique<data::PlateDataset>(plate_, data_options_, seed,
                                               runtime);
  if (data_->is_heat()) return;
  log::info(
      "{} does not say that it is of heat (a note with \"equation\": "
      "\"heat\"): the loss is without its terms physics and boundary, the test "
      "without total loss, steady state, solver and the paper's number",
      data_options_.file);
}

std::shared_ptr<torch::nn::Module> Forecast::make_model() const {
  auto model = model_options_->make(shape());
  if (predicts_variance() && !model->predicts_variance()) {
    throw ConfigError(
        "loss.frames",
        fmt::format("expected mse: {} predicts no variance", model_name_));
  }
  return model;
}

void Forecast::calibrate(torch::nn::Module& model) {
  const int64_t cases = std::min(kCalibrationCases, size(data::Split::kTrain));
  int64_t done = 0;
  if (!data_->has_alpha()) {
    as_forecaster(model).drop_alpha();
    expect_alpha_if_used(as_forecaster(model));
  }
  as_forecaster(model).calibrate([&]() -> torch::Tensor {
    if (done == cases) return {};
    const int64_t count = std::min(eval_options_.batch, cases - done);
    done += count;
    return data_->range(data::Split::kTrain, done - count, count).frames;
  });
}

void Forecast::expect_alpha_if_used(const models::Forecaster& model) const {
  if (data_->has_alpha() || !model.uses_alpha()) return;
  throw DataError(
      fmt::format("{}: expected an array named 'alpha'", data_options_.file),
      "the model takes a number of each case");
}

train::NamedTensors Forecast::state() const {
  if (!data_->fingerprint().defined()) return {};
  return {{kDataFile, data_->fingerprint()}};
}

void Forecast::restore(const train::NamedTensors& saved) {
  const auto found = saved.find(kDataFile);
  const auto& now = data_->fingerprint();
  if (found == saved.end() || !now.defined()) return;
  expect_same_data(found->second, now, data_options_.file);
}

int64_t Forecast::size(data::Split split) const { return data_->size(split); }

bool Forecast::data_on_device() const { return data_->in_memory(); }

kernels::PlateLossInputs Forecast::loss_inputs(const torch::Tensor& prediction,
                                               const data::PlateBatch& batch,
                                               PhysicsUnits units,
                                               int64_t visible) const {
  const auto per_step =
      units == PhysicsUnits::kStep ? batch.dt : torch::ones_like(batch.dt);
  const auto diffusion = batch.alpha * per_step;
  const double dx = plate_.dx(), dy = plate_.dy();
  return {prediction,
          batch.frames,
          per_step / batch.dt,
          diffusion / (dx * dx),
          diffusion / (dy * dy),
          visible};
}

train::Loss Forecast::loss(torch::nn::Module& model, data::Split split,
                           const torch::Tensor& positions) {
  auto& forecaster = as_forecaster(model);
  const auto batch = data_->batch(split, positions);
  const auto type = batch.frames.scalar_type();
  const auto spread =
      predicts_variance()
          ? forecaster.spread(batch.frames, batch.alpha)
          : models::FrameSpread{forecaster.forward(batch.frames, batch.alpha),
                                {}};
  auto prediction = spread.mean.to(type);
  if (loss_options_.steady > 0 && split == data::Split::kTrain) {
    prediction = until_steady(prediction, batch.frames, loss_options_.steady);
  }
  const auto inputs = loss_inputs(
      prediction, batch, loss_options_.physics_units, forecaster.visible());
  const bool heat = data_->is_heat();
  // Where there is a variance, the likelihood is in the place of the error.
  const kernels::PlateLossWeights weights{
      predicts_variance() ? 0 : loss_options_.mse,
      heat ? loss_options_.physics : 0, heat ? loss_options_.boundary : 0,
      loss_options_.initial};
  const bool published =
      heat && loss_options_.normalisation == Normalisation::kPublished;
  const auto plate = published
                         ? kernels::plate_loss_reference(inputs, weights, true)
                         : kernels::plate_loss(inputs, weights);
  train::Loss loss{plate.total, {{"mse", weights.mse, plate.terms[0]}}};
  if (heat) {
    loss.terms.push_back({"physics", weights.physics, plate.terms[1]});
    loss.terms.push_back({"boundary", weights.boundary, plate.terms[2]});
  }
  loss.terms.push_back({"initial", weights.initial, plate.terms[3]});
  if (predicts_variance()) {
    const auto term =
        normal_nll(prediction - batch.frames, spread.deviation.to(type));
    loss.total = loss.total + loss_options_.mse * term;
    loss.terms.push_back({"nll", loss_options_.mse, term.detach()});
  }
  if (loss_options_.correlation > 0) {
    const auto term = decorrelation(prediction, batch.frames);
    loss.total = loss.total + loss_options_.correlation * term;
    loss.terms.push_back(
        {"correlation", loss_options_.correlation, term.detach()});
  }
  return loss;
}

std::string Forecast::write_data(const std::string& path, int64_t seed,
                                 const Runtime& runtime,
                                 const std::string& note) const {
  if (!data_options_.file.empty()) {
    throw UsageError("[data] data.file is read, not solved again",
                     "leave it out: the plates come from plate.* and the seed");
  }
  auto content = nlohmann::json::parse(note);
  content["equation"] = "heat";
  data::write_plate_file(path, plate_, data_options_.cases, seed, runtime,
                         content.dump());
  return fmt::format("{} plates", data_options_.cases);
}

namespace {

// Plates have the network of the heat-plate paper; a file of fields, or a
// simulator of them, has one for any field, unless the other is named or
// something is said of a plate.
bool is_of_plates(const config::Document& document) {
  if (const auto name = document.get("model.name")) {
    return !models::frame_nets().contains(*name);
  }
  const bool fields =
      document.get("data.file") || document.get("data.simulator");
  return !fields || has_section(document, "plate");
}

std::map<std::string, std::string> all_models() {
  auto all = helps_of(models::forecasters());
  all.merge(helps_of(models::frame_nets()));
  return all;
}

}  // namespace

TaskKind forecast_kind() {
  return {
      .help = "given the first frames of a field, what does it do next?",
      .make = [](const config::Document& document) -> std::unique_ptr<Task> {
        if (!is_of_plates(document)) {
          return std::make_unique<FieldForecast>(
              find_kind(models::frame_nets(), document, "model.name", kFrameNet)
                  .options());
        }
        return std::make_unique<Forecast>(find_kind(models::forecasters(),
                                                    document, "model.name",
                                                    "heat_former")
                                              .options());
      },
      .models = all_models(),
      .files =
          "INPUT holds `fields`, whose first visible frames are used: of a "
          "heat_former (N,\nframes, rows, cols), and `alpha` (N), if the "
          "model was trained with it; of any\nother model (N, frames, "
          "space..., channels), and the numbers of each case and the constant "
          "inputs\n(N, space...), if it was trained with any. OUTPUT gets "
          "`fields` with all frames.\n  "
          "propagator predict runs/quick --input first.npz --output "
          "future.npz"};
}

}  // namespace propagator::tasks
