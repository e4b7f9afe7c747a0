#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "propagator/cli/commands.h"
#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/run/checked.h"
#include "propagator/run/configurations.h"
#include "propagator/run/simulation.h"
#include "propagator/run/train.h"
#include "propagator/train/checkpoint.h"

namespace propagator::cli {
namespace {

using nlohmann::json;

json keys_of(const config::Schema& schema) {
  json keys = json::array();
  for (const auto& field : schema.fields()) {
    json& key = keys.emplace_back(json{{"key", field.path},
                                       {"help", field.meta.help},
                                       {"type", field.type},
                                       {"default", field.default_text},
                                       {"role", config::name_of(field.role)}});
    if (!field.meta.unit.empty()) key["unit"] = field.meta.unit;
    if (std::isfinite(field.meta.min)) key["min"] = field.meta.min;
    if (std::isfinite(field.meta.max)) key["max"] = field.meta.max;
  }
  return keys;
}

void print_checked_json(const run::Experiment& experiment) {
  const auto checked = run::checked(experiment);
  json config;
  for (const auto& field : experiment.schema().fields()) {
    config[field.path] = field.get();
  }
  const json all{{"config", config},
                 {"found", checked.found},
                 {"warnings", checked.warnings},
                 {"parameters", checked.parameters},
                 {"trained_parameters", checked.trained_parameters},
                 {"config_sha256", experiment.hash()}};
  fmt::print("{}\n", all.dump(2));
}

void print_checked(const run::Experiment& experiment, bool whole) {
  const auto checked = run::checked(experiment);
  if (whole) fmt::print("{}\n", experiment.yaml());
  for (const auto& line : checked.found) fmt::print("# {}\n", line);
  std::fflush(stdout);  // what follows goes to standard error
  for (const auto& remark : checked.warnings) log::warn("{}", remark);
  fmt::print(
      "# good: {} parameters{}, config sha256 {}\n", checked.parameters,
      experiment.tune().active()
          ? fmt::format(" ({} of this fine-tuning)", checked.trained_parameters)
          : "",
      experiment.hash().substr(0, 12));
}

struct CheckArguments {
  std::vector<std::string> what;
  bool keys = false, json = false;
  Overrides overrides;
};

void check_simulation(const CheckArguments& o, const std::string& simulator,
                      const config::Document& document) {
  const run::Simulation simulation(simulator, document);
  const auto& schema = simulation.schema();
  if (o.json) {
    json config;
    for (const auto& field : schema.fields()) config[field.path] = field.get();
    const json checked{{"config", config},
                       {"config_sha256", simulation.hash()}};
    fmt::print("{}\n", (o.keys ? keys_of(schema) : checked).dump(2));
  } else if (o.keys) {
    fmt::print("{}", config::to_help(schema));
  } else {
    if (o.what.size() == 1) fmt::print("{}", simulation.yaml());
    fmt::print("# good: a simulation, config sha256 {}\n",
               simulation.hash().substr(0, 12));
  }
}

void check_config(const CheckArguments& o, const std::string& what) {
  auto document = run::document_of(what);
  o.overrides.apply_to(document);
  if (const auto simulator = run::simulator_of(document)) {
    return check_simulation(o, *simulator, document);
  }
  run::Experiment experiment(document);
  if (const auto limit = o.overrides.seconds()) experiment.limit_time(*limit);
  if (o.keys) {
    fmt::print("{}", o.json ? keys_of(experiment.schema()).dump(2) + "\n"
                            : config::to_help(experiment.schema()));
    return;
  }
  run::runtime_for_training(experiment);
  run::with_memory_hint(experiment, [&] {
    if (o.json) {
      print_checked_json(experiment);
    } else {
      print_checked(experiment, /*whole=*/o.what.size() == 1);
    }
  });
}

void check_run(const CheckArguments& o, const std::string& what) {
  const auto run = train::RunDirectory::open(what);
  const auto experiment = run::changed_experiment(
      run.read_config(), o.overrides.change(), config::evaluation_may_change);
  const auto& task = experiment->task();
  const auto model = experiment->new_model();
  json good = json::array();
  for (const auto& directory : train::list_checkpoints(run.checkpoints())) {
    const auto checkpoint = train::load_checkpoint(directory);
    run::set_weights(task, *model, checkpoint.model, directory.string());
    const auto& step = checkpoint.state.at("step");
    good.push_back({{"path", directory.string()}, {"step", step}});
    if (o.json) continue;
    fmt::print("{}: good, step {}\n", directory.string(), step.dump());
  }
  if (o.json) {
    const json checked{{"run", what}, {"good_checkpoints", good}};
    fmt::print("{}\n", checked.dump(2));
  } else {
    fmt::print("{}: {} good checkpoints\n", what, good.size());
  }
}

void check_one(const CheckArguments& o, const std::string& what) {
  fs::is_directory(what) ? check_run(o, what) : check_config(o, what);
}

// All of them, also after one that is bad; returns the first exit code that is
// not 0.
int check_all(const CheckArguments& o) {
  int first = 0;
  for (const auto& what : o.what) {
    fmt::print("{}\n", what);
    std::fflush(stdout);  // errors and warnings go to standard error
    try {
      check_one(o, what);
    } catch (const std::exception& error) {
      const int status = report_error(error);
      if (first == 0) first = status;
    }
  }
  return first;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  const auto o = std::make_shared<CheckArguments>();
  auto* verb = app.add_subcommand(
      "check",
      "Check a configuration, a simulator's keys, or a run's checkpoints");
  verb->footer(
      "A configuration is printed as resolved, every key with its meaning; of\n"
      "several only whether they are good.\n"
      "Examples:\n"
      "  propagator check forecast/quick -s model.heads=3\n"
      "  propagator check forecast/quick --keys\n"
      "  propagator check mine.yaml --model siren\n"
      "  propagator check wake --keys                 # of a simulator\n"
      "  propagator check mine/*.yaml\n"
      "  propagator check runs/quick");
  verb->add_option("what", o->what,
                   "YAML files, names from `list`, or runs; one or several")
      ->required();
  o->overrides.add_model_to(
      *verb, "The network that solves a problem, as for `solve`");
  verb->add_flag("--keys", o->keys,
                 "Types, bounds, defaults and roles of every key instead");
  verb->add_flag("--json", o->json, "Print it as JSON");
  o->overrides.add_to(*verb, Overrides::Subject::kNewRun);
  verb->callback([o, &action] {
    action = [o] {
      if (o->what.size() > 1) {
        if (!o->json && !o->keys) return check_all(*o);
        throw UsageError(
            "expected one configuration or run with --json or "
            "--keys, got " +
            std::to_string(o->what.size()));
      }
      check_one(*o, o->what.front());
      return 0;
    };
  });
}

}  // namespace propagator::cli
