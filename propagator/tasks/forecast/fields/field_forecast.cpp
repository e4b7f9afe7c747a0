#include "propagator/tasks/forecast/fields/field_forecast.h"

#include <torch/utils.h>

#include <filesystem>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/data/fields/field_simulator.h"

namespace propagator::tasks {
namespace {

using data::Split;
using models::as_field_forecaster;
using torch::Tensor;

constexpr int64_t kCasesAtOnce = 16;
constexpr const char* kDataFile = "data";  // in a checkpoint

}  // namespace

void FieldDataOptions::describe(config::Schema& s) {
  s.field("file", file,
          {.help = "fields of many cases: a file (.h5, .npz, .mat) of one of "
                   "the layouts that are known, or with an array of cases, "
                   "time, space and channels; or a folder of them",
           .role = config::Role::kInput,
           .file = true});
  s.field("simulator", simulator,
          {.help = "what computes data.file where it is not there; "
                   "`propagator list` shows simulators"});
  s.field("simulation", simulation,
          {.help = "keys of the simulator, each KEY=VALUE"});
  choices.describe(s);
  s.field("parameters", parameters,
          {.help = "numbers of each case that the model is told, by name; or "
                   "all, or none"});
  s.field("given", given,
          {.help = "frames that a forecast begins with", .min = 1, .max = 1e6});
  s.field("storage", storage,
          {.help = "memory: keep all fields on the device; stream: read each "
                   "batch from the file, while the one before trains; auto: "
                   "memory if half of it suffices",
           .role = config::Role::kCompute,
           .memory = true,
           .for_pages = "stream"});
}

std::vector<std::string> FieldDataOptions::told() const {
  const bool none = parameters.empty() || parameters.front() == kNoneOfThem ||
                    parameters.front() == kAllOfThem;
  return none ? std::vector<std::string>{} : parameters;
}

void FieldLossOptions::describe(config::Schema& s) {
  s.field("frames", frames,
          {.help = "frames that are forecast from each training window",
           .min = 1,
           .max = 1e6,
           .memory = true});
  s.field("inputs", inputs,
          {.help = "truth: each from true frames before it; own: from the "
                   "forecast ones, so that errors grow in training as they do "
                   "in a test"});
}

void FieldEvalOptions::describe(config::Schema& s) {
  s.field("batch", batch,
          {.help = "cases of one forward pass in a test",
           .min = 1,
           .memory = true});
  s.field("cases", cases,
          {.help = "how many cases of the split are tested; 0 tests all",
           .min = 0});
  s.field("steps", steps,
          {.help = "frames that are forecast in a test and by `predict`; 0: as "
                   "many as cases have after the given ones",
           .min = 0,
           .max = 1e6});
}

FieldForecast::FieldForecast(std::unique_ptr<models::FrameNetOptions> model)
    : model_options_(std::move(model)) {}

void FieldForecast::describe(config::Schema& s) {
  using enum config::Role;
  s.section("data", data_options_);
  s.field("model.name", model_name_,
          {.help = "name of the network; `propagator list` shows the names",
           .role = kModel});
  s.field("model.predicts", answer_,
          {.help = "change: how much a frame changes until the next; field: "
                   "the next frame itself",
           .role = kModel});
  s.section("model", *model_options_, kModel);
  s.section("loss", loss_options_, kLoss);
  s.section("eval", eval_options_, kEvaluation);
}

std::map<std::string, std::string> FieldForecast::defaults() const {
  return {{"train.batch", "16"},       {"train.epochs", "5"},
          {"train.clip", "1"},         {"optimizer.kind", "adam"},
          {"schedule.kind", "cosine"}, {"schedule.lr", "0.002"}};
}

void FieldForecast::validate() {
  auto& d = data_options_;
  if (!d.simulator.empty() && !data::simulators().contains(d.simulator)) {
    std::vector<std::string> names;
    for (const auto& [name, kind] : data::simulators()) names.push_back(name);
    throw ConfigError(
        "data.simulator", fmt::format("there is no simulator {}", d.simulator),
        config::did_you_mean(d.simulator, names,
                             "`propagator list` shows simulators"));
  }
  const auto simulated = simulated_file();
  if (simulated && d.file.empty()) {
    throw ConfigError("data.file", "a simulation needs a file to be kept in",
                      "name one, as data/blobs.h5");
  }
  std::optional<data::FieldLayout> layout;
  if (std::filesystem::exists(d.file)) {
    layout = data::FieldSource(d.file, d.choices).layout();
  } else if (simulated) {
    layout = data::simulated_layout(d.simulator, d.simulation);
  }
  if (layout) {
    take_layout(*layout);
  } else if (d.choices.channels.empty() || d.choices.boundaries.empty()) {
    throw ConfigError("data.file",
                      d.file.empty()
                          ? std::string("expected a file of fields")
                          : fmt::format("there is no file {}", d.file),
                      "name an .h5, .npz or .mat with an array of cases, time "
                      "and space");
  }
  std::vector<int64_t> nodes;
  for (const auto& axis : layout_.axes) nodes.push_back(axis.at.numel());
  model_options_->settle(shape(), nodes);
}

void FieldForecast::take_layout(const data::FieldLayout& layout) {
  auto& d = data_options_;
  layout_ = layout;
  d.choices.channels = layout.channels;
  d.choices.boundaries.clear();
  for (const auto& axis : layout.axes) {
    d.choices.boundaries.push_back(config::name_of(axis.boundary));
  }
  if (d.parameters == std::vector<std::string>{kAllOfThem}) {
    d.parameters = layout.parameters;
  }
  if (d.parameters.empty()) d.parameters = {kNoneOfThem};
  for (const auto& name : d.told()) {
    if (std::ranges::count(layout.parameters, name) > 0) continue;
    throw ConfigError(
        "data.parameters", fmt::format("the file has no numbers {}", name),
        config::did_you_mean(
            name, layout.parameters,
            layout.parameters.empty()
                ? "it has none"
                : fmt::format("it has {}",
                              fmt::join(layout.parameters, ", "))));
  }
  const int64_t frames = layout.times.numel();
  if (window() > frames) {
    throw ConfigError(
        "data.given",
        fmt::format("{} frames given and {} to forecast are more than the {} "
                    "that cases have",
                    d.given, loss_options_.frames, frames));
  }
  if (eval_options_.steps == 0) eval_options_.steps = frames - d.given;
}

std::vector<std::string> FieldForecast::inspect() {
  if (!std::filesystem::exists(data_options_.file)) {
    return {fmt::format("{} is not there{}", data_options_.file,
                        data_options_.simulator.empty()
                            ? std::string()
                            : fmt::format(" yet: {} computes it first",
                                          data_options_.simulator))};
  }
  return {
      data::FieldSource(data_options_.file, data_options_.choices).describe()};
}

std::optional<SimulatedFile> FieldForecast::simulated_file() const {
  if (data_options_.simulator.empty()) return std::nullopt;
  return SimulatedFile{data_options_.file, data_options_.simulator,
                       data_options_.simulation};
}

models::FrameShape FieldForecast::shape() const {
  models::FrameShape shape{
      .periodic = {},
      .channels = std::ssize(data_options_.choices.channels),
      .given = data_options_.given,
      .conditions = std::ssize(data_options_.told())};
  for (const auto& boundary : data_options_.choices.boundaries) {
    shape.periodic.push_back(boundary ==
                             config::name_of(data::Boundary::kPeriodic));
  }
  return shape;
}

std::shared_ptr<torch::nn::Module> FieldForecast::make_model() const {
  return std::make_shared<models::FieldForecaster>(
      model_options_->make(shape()), answer_, std::ssize(data_options_.told()));
}

void FieldForecast::initialise(torch::nn::Module& model, int64_t seed) const {
  as_field_forecaster(model).initialise(seed);
}

void FieldForecast::prepare(int64_t seed, const Runtime& runtime) {
  runtime_ = runtime;
  const data::FieldSource source(data_options_.file, data_options_.choices);
  layout_ = source.layout();
  log::info("{}", source.describe());
  data_ = std::make_unique<data::FieldDataset>(source, seed, runtime,
                                               data_options_.storage);
  std::vector<int64_t> columns;
  for (const auto& name : data_options_.told()) {
    columns.push_back(std::ranges::find(layout_.parameters, name) -
                      layout_.parameters.begin());
  }
  told_ = torch::tensor(columns, torch::kInt64).to(runtime.device);
}

Tensor FieldForecast::told(const data::FieldBatch& cases) const {
  return cases.parameters.index_select(1, told_);
}

void FieldForecast::calibrate(torch::nn::Module& model) {
  int64_t done = 0;
  const int64_t cases = data_->cases(Split::kTrain);
  as_field_forecaster(model).calibrate(
      [&]() -> Tensor {
        if (done >= cases) return {};
        done += kCasesAtOnce;
        return data_->range(Split::kTrain, done - kCasesAtOnce, kCasesAtOnce)
            .frames;
      },
      told({{}, data_->parameters(Split::kTrain)}));
}

train::NamedTensors FieldForecast::state() const {
  return {{kDataFile, data_->fingerprint()}};
}

void FieldForecast::restore(const train::NamedTensors& saved) {
  const auto found = saved.find(kDataFile);
  // But for the rounding of sums, which depends on the number of threads.
  if (found == saved.end() ||
      torch::allclose(found->second, data_->fingerprint(), 1e-6, 0)) {
    return;
  }
  throw DataError(fmt::format("{} is not the file that the run was trained on",
                              data_options_.file),
                  "bring that file back, or train another run with this one");
}

int64_t FieldForecast::size(Split split) const {
  return data_->windows(split, window());
}

void FieldForecast::expect(const Tensor& positions) {
  data_->expect_windows(Split::kTrain, positions, window());
}

train::Loss FieldForecast::loss(torch::nn::Module& model, Split split,
                                const Tensor& positions) {
  auto& forecaster = as_field_forecaster(model);
  const auto batch = data_->windows_at(split, positions, window());
  const int64_t given = data_options_.given, frames = loss_options_.frames;
  const auto truth = batch.frames.narrow(1, given, frames);
  const auto answer =
      loss_options_.inputs == TrainedOn::kOwn
          ? forecaster.rollout(batch.frames.narrow(1, 0, given), told(batch),
                               frames)
          : forecaster.forward(batch.frames.narrow(1, 0, window() - 1),
                               told(batch));
  const auto total =
      ((answer - truth) / forecaster.answer_scale()).square().mean();
  return {total, {{"mse", 1, total.detach()}}};
}

Tensor FieldForecast::forecast(
    models::FieldForecaster& model, const data::FieldBatch& cases,
    const std::function<void(int64_t)>& progress) const {
  return model.rollout(cases.frames.narrow(1, 0, data_options_.given),
                       told(cases), steps(), progress);
}

std::optional<AuditSubject> FieldForecast::audit_subject(
    torch::nn::Module& model) {
  auto& forecaster = as_field_forecaster(model);
  model.eval();
  const auto batch = data_->range(Split::kTest, 0, 2);
  const int64_t given = data_options_.given;
  return AuditSubject{
      .inputs = batch.frames,
      .visible = given,
      .paths = {{"test",
                 [this, batch, &forecaster](const Tensor& frames) {
                   const torch::NoGradGuard no_grad;
                   return NamedTensors{
                       {"fields",
                        forecast(forecaster, {frames, batch.parameters}, {})}};
                 }}},
      .forward =
          [&forecaster, told = told(batch)](const Tensor& frames) {
            return forecaster.forward(frames, told.slice(0, 0, frames.size(0)));
          },
      .first_hidden = [given](int64_t output) { return output + given; }};
}

}  // namespace propagator::tasks
