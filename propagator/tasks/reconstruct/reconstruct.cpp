#include "propagator/tasks/reconstruct/reconstruct.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/models/uses_snapshots.h"
#include "propagator/tasks/calibration.h"
#include "propagator/tasks/reconstruct/scaled_net.h"

namespace propagator::tasks {
namespace {

using models::as_field_net;
using models::FieldNet;
using torch::Tensor;

// Of a field that is the same everywhere, as far as was read.
constexpr double kLeastSpread = 1e-12;
// A predicted standard deviation is this share of the spread at least.
constexpr double kMinLogVariance = -23;  // 1e-5
// The interval that the level of a faithful variance makes right, and an error²
// below which there is nothing to tell apart.
constexpr double kFittedShare = 0.9;
constexpr double kMinSquare = 1e-24;

// Of each column of values (M, K), of those that are known: below it lies so
// large a share of values like these, on average over all such samples. Not
// finite where too few are known. Works without the host.
Tensor upper_share(const Tensor& values, const Tensor& known, double share) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto sorted =
      std::get<0>(values.masked_fill(known == 0, kInfinity).sort(0));
  const auto count = known.ne(0).sum(0, /*keepdim=*/true);
  const auto at = (share * (count + 1)).ceil().to(torch::kInt64) - 1;
  return sorted.gather(0, torch::minimum(at, count - 1).clamp_min(0))
      .squeeze(0);
}

SimulatedFile source_of(const TruthOptions& truth) {
  return {truth.file, truth.simulator, truth.simulation};
}

// Without a path if the model uses none.
SimulatedFile snapshots_of_model(const models::FieldNetOptions* options) {
  const auto* uses = dynamic_cast<const models::UsesSnapshots*>(options);
  if (uses == nullptr) return {};
  auto source = uses->snapshots();
  return {source.file, source.simulator, source.simulation};
}

}  // namespace

void Reconstruct::describe(config::Schema& s) {
  Solve::describe(s);
  s.section("sensors", sensor_options_);
  s.section("truth", truth_options_);
  s.section("loss", reading_loss_, config::Role::kLoss);
  s.section("functions", function_options_, config::Role::kModel);
}

std::map<std::string, std::string> Reconstruct::defaults() const {
  auto all = Solve::defaults();
  all.try_emplace("model.name", kReconstructor);
  all["eval.classical"] = "no";
  return all;
}

void Reconstruct::validate_own() {
  if (problem_->region) {
    throw ConfigError("problem.shapes",
                      "fields are rebuilt in boxes, not in shapes",
                      "leave out problem.shapes and problem.inside");
  }
  const auto& names = problem_->symbols.fields;
  measured_.clear();
  for (const auto& field : sensor_options_.fields) {
    const auto found = std::ranges::find(names, field);
    if (found == names.end()) {
      throw ConfigError(
          "sensors.fields", fmt::format("the problem has no field {}", field),
          config::did_you_mean(
              field, names, fmt::format("it has {}", fmt::join(names, ", "))));
    }
    measured_.push_back(found - names.begin());
  }
  if (measured_.empty()) {
    measured_.resize(static_cast<size_t>(problem_->solved()));
    std::iota(measured_.begin(), measured_.end(), 0);
  }
  std::ranges::sort(measured_);
  const bool drawn =
      sensor_options_.file.empty() && truth_options_.file.empty();
  validate_unknowns(drawn);
  if (!truth_options_.simulator.empty()) {
    expect_simulated(source_of(truth_options_), "truth", "data/wake.h5");
  }
  const auto snapshots = snapshots_of_model(model_options_.get());
  if (!snapshots.simulator.empty()) {
    expect_simulated(snapshots, "model", "data/wake-110.h5");
  }
  if (reading_loss_.kind == ReadingLoss::kFaithful &&
      model_options_->is_fitted()) {
    throw ConfigError("loss.readings",
                      "faithful variances are trained, and this model is not",
                      "with heteroscedastic it says its own, if it has one");
  }
  sensor_options_.validate();
}

std::vector<SimulatedFile> Reconstruct::simulated_files() const {
  std::vector<SimulatedFile> files;
  for (const auto& file :
       {source_of(truth_options_), snapshots_of_model(model_options_.get())}) {
    if (!file.simulator.empty()) files.push_back(file);
  }
  return files;
}

std::vector<std::string> Reconstruct::inspect() {
  std::vector<std::string> missing;
  for (const auto& file : simulated_files()) {
    if (std::filesystem::exists(file.path)) continue;
    missing.push_back(fmt::format("{} is not there yet: {} computes it first",
                                  file.path, file.simulator));
  }
  if (!missing.empty()) {
    auto lines = config::items_of(problem_->describe());
    lines.insert(lines.end(), missing.begin(), missing.end());
    return lines;
  }
  auto lines = Solve::inspect();
  std::vector<std::string> names;
  for (const int64_t f : measured_) {
    if (std::ranges::count(never_read_, f) > 0) continue;
    names.push_back(problem_->symbols.fields[static_cast<size_t>(f)]);
  }
  lines.push_back(
      fmt::format("{} sensors that train, {} that validate; read: {}",
                  sensors_.training.count(), sensors_.held_out.count(),
                  fmt::join(names, ", ")));
  return lines;
}

int64_t Reconstruct::outputs() const {
  return Solve::outputs() + (predicts_variance() ? std::ssize(measured_) : 0);
}

int64_t Reconstruct::network_outputs() const {
  const int64_t variances = reading_loss_.kind == ReadingLoss::kHeteroscedastic
                                ? std::ssize(measured_)
                                : 0;
  return problem_->solved() + variances;
}

models::FieldDomain Reconstruct::domain() const {
  auto domain = Solve::domain();
  domain.fields = network_outputs();
  domain.field_names.resize(static_cast<size_t>(problem_->solved()));
  if (reading_loss_.kind == ReadingLoss::kHeteroscedastic) {
    domain.log_variances_of = measured_;
  }
  return domain;
}

SolveReference::Freedoms Reconstruct::freedoms() const {
  auto all = Solve::freedoms();
  for (const int64_t f : measured_) {
    if (std::ranges::count(never_read_, f) > 0) continue;
    all[static_cast<size_t>(f)] = pde::Freedom::kNone;
  }
  return all;
}

void Reconstruct::prepare(int64_t seed, const Runtime& runtime) {
  seed_ = seed;
  if (!truth_options_.file.empty() &&
      snapshots_of_model(model_options_.get()).path == truth_options_.file) {
    log::warn(
        "model.file is truth.file: its snapshots are the answer before the "
        "question");
  }
  std::optional<GriddedFields> truth;
  if (!truth_options_.file.empty()) {
    truth = read_gridded_fields(truth_options_.file, *problem_);
  }
  if (!sensor_options_.file.empty()) {
    sensors_ = read_readings(*problem_, sensor_options_, measured_, seed);
    find_never_read();
  } else if (sensor_options_.placement == Placement::kGiven) {
    sensors_ =
        sensors_at_places(*problem_, truth, sensor_options_, measured_, seed);
  } else if (truth) {
    sensors_ = sensors_on_grid(*truth, sensor_options_, measured_, seed);
  } else {
    sensors_ = sensors_of_solution(*problem_, sensor_options_, measured_, seed);
  }
  if (truth) {
    const auto tested =
        snapshots_of(*truth, problem_->time(), truth_options_.snapshots);
    reference_ = SolveReference(*problem_, eval_options_, freedoms(),
                                tested.grid, tested.fields);
  } else if (!never_read_.empty()) {
    reference_ = SolveReference(*problem_, eval_options_, freedoms());
  }
  expect_enough_readings();
  Solve::prepare(seed, runtime);
  columns_ = torch::tensor(measured_, torch::kInt64);
  const auto read = sensors_.training.readings.index_select(1, columns_);
  const auto known = torch::isfinite(read);
  const auto count = known.sum(0).clamp_min(1);
  const auto mean = read.nan_to_num(0).sum(0) / count;
  const auto variance = (read - mean).nan_to_num(0).square().sum(0) / count;
  mean_ = mean;
  spread_ = torch::where(variance.sqrt() > kLeastSpread, variance.sqrt(),
                         torch::ones_like(variance));
  spread_there_ = spread_.to(runtime.options());
  log_units_there_ = 2 * spread_there_.log();
  columns_there_ = columns_.to(runtime.device);
  training_ = on_device(sensors_.training);
  held_out_ = on_device(sensors_.held_out.count() > 0 ? sensors_.held_out
                                                      : sensors_.training);
}

void Reconstruct::find_never_read() {
  never_read_.clear();
  for (const int64_t f : measured_) {
    bool read = false;
    for (const auto* some : {&sensors_.training, &sensors_.held_out}) {
      const auto readings = some->readings.select(1, f);
      read = read || torch::isfinite(readings).any().item<bool>();
    }
    if (read) continue;
    never_read_.push_back(f);
    const auto& name = problem_->symbols.fields[static_cast<size_t>(f)];
    if (predicts_variance()) {
      throw DataError(
          fmt::format("{} has no reading of {}, whose variance "
                      "loss.readings=heteroscedastic asks for",
                      sensor_options_.file, name),
          fmt::format(
              "name the fields that are read in sensors.fields, without {}",
              name));
    }
    log::info("{} has no reading of {}: it follows from the equations",
              sensor_options_.file, name);
  }
}

Reconstruct::Read Reconstruct::on_device(const Sensors& sensors) const {
  const auto readings = sensors.readings.index_select(1, columns_);
  const auto known = torch::isfinite(readings);
  const auto share = static_cast<double>(known.numel()) /
                     std::max<double>(1, known.sum().item<double>());
  return {windows_of(sensors.points),
          readings.nan_to_num(0).to(runtime_.options()),
          known.to(runtime_.options()),
          torch::full({}, std::sqrt(share), runtime_.options())};
}

std::shared_ptr<torch::nn::Module> Reconstruct::make_model() const {
  auto seen = conditions_.seen(domain());
  const auto network = model_options_->make(seen);
  std::shared_ptr<SpreadNet> spreads;
  if (reading_loss_.kind == ReadingLoss::kFaithful) {
    seen.fields = std::ssize(measured_);
    spreads = std::make_shared<SpreadNet>(seen);
  }
  return conditions_.build_into(std::make_shared<ScaledNet>(
      ScaledNet::Parts{network, problem_->solved(), make_functions(), spreads},
      outputs(), problem_->unknowns));
}

void Reconstruct::calibrate(torch::nn::Module& model) {
  auto shift = torch::zeros({outputs()}, torch::kFloat64);
  auto scale = torch::ones({outputs()}, torch::kFloat64);
  for (size_t k = 0; k < measured_.size(); ++k) {
    const auto spread = spread_[static_cast<int64_t>(k)];
    // A function has its own size, and bounds perhaps.
    if (measured_[k] < problem_->solved()) {
      shift[measured_[k]] = mean_[static_cast<int64_t>(k)];
      scale[measured_[k]] = spread;
    }
    if (!predicts_variance()) continue;
    shift[Solve::outputs() + static_cast<int64_t>(k)] = 2 * spread.log();
  }
  // A network's answers beside the fields are never read.
  const auto& read = sensors_.training.readings;
  const int64_t fields = problem_->solved();
  auto readings = torch::full({read.size(0), network_outputs()}, std::nan(""),
                              read.options());
  for (int64_t f = 0; f < fields; ++f) {
    readings.select(1, f).copy_((read.select(1, f) - shift[f]) / scale[f]);
  }
  // Without the functions, which are no answers of the network.
  const auto of_network = [&](const Tensor& all) {
    const int64_t others = network_outputs() - fields;
    return torch::cat(
        {all.slice(0, 0, fields),
         all.slice(0, Solve::outputs(), Solve::outputs() + others)});
  };
  as_field_net(model).observe({sensors_.training.points, readings,
                               of_network(shift), of_network(scale)});
  for (const auto& part : model.modules()) {
    if (auto* scaled = part->as<ScaledNet>()) scaled->set(shift, scale);
  }
}

Reconstruct::Misfit Reconstruct::misfit_of(FieldNet& model,
                                           const Read& at) const {
  const auto outputs = model.values(at.windows).select(1, 0);  // (M, F + K)
  Misfit misfit{(outputs.index_select(1, columns_there_) - at.readings) /
                spread_there_ * at.known};
  if (predicts_variance()) {
    misfit.log_variance =
        (outputs.slice(1, Solve::outputs()) - log_units_there_)
            .clamp_min(kMinLogVariance);
  }
  return misfit;
}

Tensor Reconstruct::faithful_likelihood(FieldNet& model,
                                        const Misfit& training) const {
  SpreadNet* spreads = nullptr;
  for (const auto& part : model.modules()) {
    if (auto* found = part->as<SpreadNet>()) spreads = found;
  }
  const auto shape = spreads->shape_of(training.log_variance);
  const auto squares = training.error.detach().square();
  const auto likelihood = (shape + squares * (-shape).exp()) * training_.known;
  // The level follows the fields at every step: nothing of it is trained.
  {
    const torch::NoGradGuard no_grad;
    const auto held_out = misfit_of(model, held_out_);
    const auto over = held_out.error.square().clamp_min(kMinSquare).log() -
                      spreads->shape_of(held_out.log_variance);
    spreads->set_level(upper_share(over, held_out_.known, kFittedShare) -
                       2 * std::log(normal_reach(kFittedShare)));
  }
  return likelihood.mean() * training_.share.square();
}

std::vector<OwnTerm> Reconstruct::own_terms() {
  return {{"data", reading_loss_.weight,
           [this](FieldNet& model, data::Split split) {
             const bool trains = split == data::Split::kTrain;
             const auto& at = trains ? training_ : held_out_;
             const auto misfit = misfit_of(model, at);
             auto residual = misfit.error * at.share;
             switch (reading_loss_.kind) {
               case ReadingLoss::kMse:
                 break;
               case ReadingLoss::kFaithful:
                 if (!trains) break;
                 return OwnTerm::Left{{residual},
                                      faithful_likelihood(model, misfit)};
               case ReadingLoss::kHeteroscedastic: {
                 const auto& logs = misfit.log_variance;
                 return OwnTerm::Left{
                     {residual * (-0.5 * logs).exp()},
                     (logs * at.known).mean() * at.share.square()};
               }
             }
             return OwnTerm::Left{{residual}};
           }}};
}

Quantities Reconstruct::own_quantities() const {
  if (!predicts_variance()) return {};
  auto symbols = problem_->symbols;
  Quantities all;
  for (const int64_t f : measured_) {
    const auto& field = problem_->symbols.fields[static_cast<size_t>(f)];
    // The network's answer behind those before it: log variances in order.
    symbols.fields.push_back(field + "LogVariance");
    all.emplace_back(
        field + "_deviation",
        pde::Expression::parse(fmt::format("exp({}/2)", symbols.fields.back()),
                               symbols));
  }
  return all;
}

TaskKind reconstruct_kind() {
  auto kind = solve_kind();
  kind.help = "given scattered readings of a field, what is it everywhere?";
  kind.models = helps_of(models::field_nets());
  kind.make = [](const config::Document& document) {
    const bool named = document.get("recipe").has_value();
    return make_solver<Reconstruct>(
        document, named ? recipe_of(document) : Recipe::kNetwork,
        kReconstructor);
  };
  kind.claims = [](const config::Document& document) {
    return has_section(document, "sensors");
  };
  return kind;
}

}  // namespace propagator::tasks
