#include "propagator/tasks/forecast/fields/field_forecast.h"

#include <ATen/Context.h>
#include <torch/utils.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/random.h"
#include "propagator/data/fields/field_simulator.h"
#include "propagator/tasks/forecast/same_data.h"

namespace propagator::tasks {
namespace {

using data::Split;
using models::as_field_forecaster;
using torch::Tensor;

constexpr int64_t kCasesAtOnce = 16;
// In a checkpoint.
constexpr const char* kDataFile = "data";
constexpr const char* kTestFile = "test_data";

// So many cases, all of them to test on.
data::SplitIndices all_to_test(int64_t cases) {
  std::vector<int64_t> all(static_cast<size_t>(cases));
  std::iota(all.begin(), all.end(), int64_t{0});
  return {{}, {}, all, all};
}

}  // namespace

FieldForecast::FieldForecast(std::unique_ptr<models::FrameNetOptions> model)
    : model_options_(std::move(model)) {}

void FieldForecast::describe(config::Schema& s) {
  using enum config::Role;
  s.section("data", data_options_);
  s.field("model.name", model_name_,
          {.help = "name of the network; `propagator list` shows the names",
           .role = kModel});
  s.field("model.predicts", answer_,
          {.help = "change: how much a frame changes until the next, or with "
                   "a block mask from the last given one; field: the next "
                   "frame itself",
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

std::vector<SimulatedFile> FieldForecast::simulated_files() const {
  const auto& d = data_options_;
  if (d.simulator.empty()) return {};
  std::vector<SimulatedFile> files{{d.file, d.simulator, d.simulation}};
  if (!d.test_file.empty()) {
    files.push_back({d.test_file, d.simulator, d.simulation});
    auto& keys = files.back().settings;
    keys.insert(keys.end(), d.test_simulation.begin(), d.test_simulation.end());
  }
  return files;
}

models::FrameShape FieldForecast::shape() const {
  models::FrameShape shape{
      .periodic = {},
      .channels = std::ssize(data_options_.choices.channels),
      .given = data_options_.given,
      .conditions = std::ssize(data_options_.told()) +
                    std::ssize(data_options_.constants()),
      .block = block()};
  for (const auto& boundary : data_options_.choices.boundaries) {
    shape.periodic.push_back(boundary ==
                             config::name_of(data::Boundary::kPeriodic));
  }
  return shape;
}

std::shared_ptr<torch::nn::Module> FieldForecast::make_model() const {
  return std::make_shared<models::FieldForecaster>(
      model_options_->make(shape()), answer_, std::ssize(data_options_.told()),
      std::ssize(data_options_.constants()));
}

void FieldForecast::initialise(torch::nn::Module& model, int64_t seed) const {
  as_field_forecaster(model).initialise(seed);
}

void FieldForecast::prepare(int64_t seed, const Runtime& runtime) {
  runtime_ = runtime;
  seed_ = seed;
  const data::FieldSource source(data_options_.file, data_options_.choices);
  layout_ = source.layout();
  log::info("{}", source.describe());
  const auto& d = data_options_;
  data_ = std::make_unique<data::FieldDataset>(
      source, source.split(seed, d.shares()), runtime, d.storage);
  if (!d.test_file.empty()) {
    const data::FieldSource other(d.test_file, d.choices);
    test_ = std::make_unique<data::FieldDataset>(
        other, all_to_test(other.cases()), runtime, d.storage);
  }
  if (d.symmetry != FieldSymmetry::kNone) {
    views_ = std::make_unique<SymmetricViews>(d.symmetry, source.nodes(),
                                              runtime.device);
    first_view_ = torch::zeros({}, torch::kInt64).to(runtime.device);
  }
  for (const auto split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    if (data(split).cases(split) > 0) continue;
    throw DataError(fmt::format("{} cases are too few to have one for {}",
                                source.cases(), config::name_of(split)),
                    "data.validation and data.test are shares of them");
  }
  std::vector<int64_t> columns;
  for (const auto& name : d.told()) {
    columns.push_back(std::ranges::find(layout_.parameters, name) -
                      layout_.parameters.begin());
  }
  told_ = torch::tensor(columns, torch::kInt64).to(runtime.device);
}

void FieldForecast::open_instead(const std::string& file) {
  data_options_.file = file;
  data_options_.simulator.clear();
  data_options_.test_file.clear();
}

models::Told FieldForecast::told(const data::FieldBatch& cases) const {
  return {cases.parameters.index_select(1, told_), cases.constants};
}

void FieldForecast::calibrate(torch::nn::Module& model) {
  int64_t done = 0;
  const int64_t cases = data_->cases(Split::kTrain);
  as_field_forecaster(model).calibrate(
      [&]() -> models::CaseFrames {
        if (done >= cases) return {};
        done += kCasesAtOnce;
        const auto some =
            data_->range(Split::kTrain, done - kCasesAtOnce, kCasesAtOnce);
        return {some.frames, some.constants};
      },
      told({{}, data_->parameters(Split::kTrain)}).numbers);
}

train::NamedTensors FieldForecast::state() const {
  train::NamedTensors state{{kDataFile, data_->fingerprint()}};
  if (test_) state[kTestFile] = test_->fingerprint();
  return state;
}

void FieldForecast::restore(const train::NamedTensors& saved) {
  const auto expect_same = [&](const char* name, const data::FieldDataset& data,
                               const std::string& file) {
    const auto found = saved.find(name);
    if (found == saved.end()) return;
    expect_same_data(found->second, data.fingerprint(), file);
  };
  expect_same(kDataFile, *data_, data_options_.file);
  if (test_) expect_same(kTestFile, *test_, data_options_.test_file);
}

int64_t FieldForecast::size(Split split) const {
  return data(split).windows(split, window());
}

void FieldForecast::expect(const Tensor& positions) {
  data_->expect_windows(Split::kTrain, positions, window());
}

void FieldForecast::begin_step(torch::nn::Module&, int64_t step) {
  step_ = step;
  slice_ = 0;
  if (views_) {
    first_view_.fill_(
        RandomStream(seed_, "views").below(views_->count(), step, 0));
  }
  if (noise_.defined()) draw_noise();
}

void FieldForecast::begin_slice(int64_t slice) {
  slice_ = slice;
  if (noise_.defined()) draw_noise();
}

// On its device, by a generator that knows nothing but the seed, the step and
// the slice.
void FieldForecast::draw_noise() {
  auto generator =
      at::globalContext().defaultGenerator(noise_.device()).clone();
  const double unit = RandomStream(seed_, "noise").uniform(step_, slice_);
  generator.set_current_seed(static_cast<uint64_t>(std::ldexp(unit, 53)));
  noise_.normal_(0, 1, generator);
}

train::Loss FieldForecast::loss(torch::nn::Module& model, Split split,
                                const Tensor& positions) {
  auto& forecaster = as_field_forecaster(model);
  auto batch = data(split).windows_at(split, positions, window());
  if (views_ && split == Split::kTrain) {
    const auto which = positions.to(first_view_.device()) + first_view_;
    batch.frames = views_->of(batch.frames, which);
    if (batch.constants.defined()) {
      batch.constants =
          views_->of(batch.constants.unsqueeze(1), which).squeeze(1);
    }
  }
  const int64_t given = data_options_.given, frames = loss_options_.frames;
  const bool own = loss_options_.inputs == TrainedOn::kOwn;
  const auto truth = batch.frames.narrow(1, given, frames);
  auto seen = batch.frames.narrow(1, 0, own ? given : window() - 1);
  if (loss_options_.noise > 0 && split == Split::kTrain) {
    if (!noise_.defined() || noise_.sizes() != seen.sizes()) {
      noise_ = torch::empty_like(seen);
      draw_noise();
    }
    seen = seen + loss_options_.noise * forecaster.deviation() * noise_;
  }
  const auto answer = own ? forecaster.rollout(seen, told(batch), frames)
                          : forecaster.forward(seen, told(batch));
  const auto total =
      ((answer - truth) / forecaster.answer_scale(frames)).square().mean();
  return {total, {{"mse", 1, total.detach()}}};
}

Tensor FieldForecast::forecast(
    models::FieldForecaster& model, const data::FieldBatch& cases,
    int64_t steps, const std::function<void(int64_t)>& progress) const {
  return model.rollout(cases.frames.narrow(1, 0, data_options_.given),
                       told(cases), steps, progress);
}

}  // namespace propagator::tasks
