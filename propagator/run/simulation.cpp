#include "propagator/run/simulation.h"

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/core/machine.h"
#include "propagator/core/sha256.h"
#include "propagator/core/stopwatch.h"
#include "propagator/core/version.h"
#include "propagator/run/configurations.h"
#include "propagator/run/known_files.h"

namespace propagator::run {
namespace {

const Kind<data::Simulator>& simulator_kind(const std::string& name) {
  const auto found = data::simulators().find(name);
  if (found != data::simulators().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, kind] : data::simulators()) names.push_back(known);
  throw UsageError(
      fmt::format("no simulator {}", name),
      config::did_you_mean(name, names, "`propagator list` shows them"));
}

// One run of a row.
struct SimulatedRun {
  nlohmann::json numbers;
  double seconds = 0;
};

Simulation planned_run(const ValidationRequest& request,
                       const std::vector<std::string>& settings) {
  auto document = request.where;
  for (const auto& setting : settings) document.override_with(setting);
  return Simulation(request.simulator, std::move(document));
}

// How fast a number converges over the last three grids; null if it does not.
nlohmann::json order_of(const data::Validation& row,
                        const std::vector<SimulatedRun>& runs,
                        const std::string& number) {
  const auto value = [&](size_t from_last) {
    return runs[runs.size() - from_last].numbers.at(number).get<double>();
  };
  const double before = std::abs(value(3) - value(2));
  const double after = std::abs(value(2) - value(1));
  if (!(before > 0) || !(after > 0)) return nullptr;
  return std::log(before / after) / std::log(row.ratio);
}

bool is_within(const data::Band& band, const nlohmann::json& value) {
  return value.is_number() && value.get<double>() >= band.min &&
         value.get<double>() <= band.max;
}

ValidationResult validate_row(const ValidationRequest& request,
                              const data::Validation& row) {
  std::vector<SimulatedRun> runs;
  nlohmann::json each;
  std::string configs;
  double seconds = 0;
  nlohmann::json place;
  for (const auto& settings : row.runs) {
    const auto simulation = planned_run(request, settings);
    log::info("{}/{}: {}", request.simulator, row.name,
              fmt::join(settings, " "));
    const Stopwatch clock;
    runs.push_back({.numbers = simulation.run().numbers});
    runs.back().seconds = clock.seconds();
    seconds += runs.back().seconds;
    each.push_back({{"settings", settings},
                    {"numbers", runs.back().numbers},
                    {"seconds", runs.back().seconds}});
    configs += simulation.hash();
    place = computed_by(simulation.runtime());
  }
  auto numbers = runs.back().numbers;
  for (const auto& number : row.refined) {
    numbers["order_" + number] = order_of(row, runs, number);
  }
  ValidationResult result;
  auto bands = nlohmann::json::array();
  for (const auto& band : row.bands) {
    const auto& value = numbers.at(band.number);
    const bool within = is_within(band, value);
    result.within = result.within && within;
    bands.push_back({{"number", band.number},
                     {"value", value},
                     {"band", {band.min, band.max}},
                     {"within", within},
                     {"source", band.source}});
  }
  result.summary = {
      {"row", request.simulator + "/" + row.name},
      {"about", row.help},
      {"bands", bands},
      {"within", result.within},
      {"numbers", numbers},
      {"runs", each},
      {"seconds", seconds},
      {"command", fmt::format("propagator data validate {} {}",
                              request.simulator, row.name)},
      {"config_sha256", row.runs.size() == 1 ? configs : sha256(configs)},
      {"draft", request.draft}};
  result.summary.update(place);
  return result;
}

std::vector<data::Validation> chosen_rows(const ValidationRequest& request) {
  const auto all = simulator_kind(request.simulator).options()->validations();
  if (request.rows.empty()) return all;
  std::vector<std::string> names;
  for (const auto& row : all) names.push_back(row.name);
  std::vector<data::Validation> rows;
  for (const auto& name : request.rows) {
    const auto found = std::ranges::find(all, name, &data::Validation::name);
    if (found == all.end()) {
      throw UsageError(
          fmt::format("{} has no row {}", request.simulator, name),
          config::did_you_mean(
              name, names, fmt::format("it has {}", fmt::join(names, ", "))));
    }
    rows.push_back(*found);
  }
  return rows;
}

void provide(const tasks::SimulatedFile& file, const std::string& device) {
  config::Document document;
  document.override_with("device=" + device);
  for (const auto& setting : file.settings) document.override_with(setting);
  const Simulation simulation(file.simulator, std::move(document));
  if (!fs::exists(file.path)) {
    log::info("{} is not there: {} computes it", file.path, file.simulator);
    write_simulation(simulation, file.path);
    return;
  }
  const auto note = nlohmann::json::parse(
      data::TensorReader::open(file.path)->note(), nullptr,
      /*allow_exceptions=*/false);
  const bool same =
      note.is_object() && note.value("config_sha256", nlohmann::json()) ==
                              nlohmann::json(simulation.hash());
  if (same) return;
  throw UsageError(fmt::format("{} was not made by {} with these keys",
                               file.path, file.simulator),
                   "remove it, or name another file to keep the simulation in");
}

}  // namespace

bool Simulation::is_known(const std::string& name) {
  return data::simulators().contains(name);
}

config::Document document_of(const std::string& name) {
  if (!Simulation::is_known(name) || fs::is_regular_file(name)) {
    const auto known = known_configs();
    const auto found = known.find("data/" + name);
    return found != known.end() && !fs::exists(name)
               ? config::Document::from_file(found->second)
               : open_config(name);
  }
  config::Document document;
  document.set("simulator", name, name);
  return document;
}

std::optional<std::string> simulator_of(const config::Document& document) {
  return document.get("simulator");
}

Simulation::Simulation(const std::string& name, config::Document document)
    : name_(name), simulator_(simulator_kind(name).options()) {
  using enum config::Role;
  schema_.field(
      "device", device_,
      {.help = "where to compute: auto, cpu, cuda or cuda:N", .role = kPlace});
  schema_.field(
      "threads", threads_,
      {.help = "CPU threads to compute with; arrays are so small that more "
               "than one gain little; 0 takes all cores",
       .min = 0,
       .max = 4096,
       .role = kPlace});
  schema_.field("precision", precision_,
                {.help = "type of the numbers; all simulators compute in fp64, "
                         "those of fields in fp32 too",
                 .role = kCompute});
  schema_.field("simulator", name_,
                {.help = "whose keys these are", .role = kLabel});
  simulator_->describe(schema_);
  document.apply_to(schema_);
  try {
    if (name_ != name) {
      throw ConfigError("simulator",
                        fmt::format("expected {}, got {}", name, name_));
    }
    if (!simulator_->computes_in(precision_)) {
      const bool single = simulator_->computes_in(Precision::kFloat32);
      throw ConfigError("precision",
                        fmt::format("{} computes in fp64{} only", name,
                                    single ? " and fp32" : ""),
                        "leave it out");
    }
    simulator_->validate();
  } catch (const ConfigError& error) {
    document.rethrow_with_place(error);
  }
}

std::string Simulation::hash() const {
  std::string text;
  for (const auto& field : schema_.fields()) {
    if (config::is_hashed(field.role)) text += field.hash_text() + "\n";
  }
  return sha256(text);
}

Runtime Simulation::runtime() const {
  return make_runtime(device_, precision_);
}

data::Simulated Simulation::run() const {
  const auto where = runtime();
  const RuntimeScope scope(where, threads_);
  return simulator_->simulate(where);
}

nlohmann::json write_simulation(const Simulation& simulation,
                                const fs::path& out) {
  data::written_format(out);  // a wrong ending is said before the work
  const auto runtime = simulation.runtime();
  const RuntimeScope scope(runtime, simulation.threads());
  const Stopwatch clock;
  return simulation.simulator().write(
      out, runtime, [&](const data::Simulated& simulated) {
        auto note = computed_by(runtime);
        note["made_by"] = "propagator data generate " + simulation.name();
        note["simulator"] = simulation.name();
        note["config"] = simulation.yaml();
        note["config_sha256"] = simulation.hash();
        note["seconds"] = clock.seconds();
        note["numbers"] = simulated.numbers;
        note.update(simulated.note);
        return note.dump();
      });
}

void provide_simulated_files(const tasks::Task& task,
                             const std::string& device) {
  for (const auto& file : task.simulated_files()) provide(file, device);
}

std::vector<ValidationResult> validate_simulator(
    const ValidationRequest& request) {
  const auto rows = chosen_rows(request);
  expect_a_commit(request.draft);
  std::vector<ValidationResult> results;
  for (const auto& row : rows) {
    results.push_back(validate_row(request, row));
    const auto file = request.out / request.simulator / (row.name + ".json");
    write_file_atomically(file, results.back().summary.dump(2) + "\n");
    log::info("written {}", file.string());
  }
  return results;
}

}  // namespace propagator::run
