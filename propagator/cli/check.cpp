#include <cstdio>

#include "propagator/cli/commands.h"
#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/nn/init.h"
#include "propagator/run/configurations.h"
#include "propagator/run/train.h"
#include "propagator/train/checkpoint.h"

namespace propagator::cli {
namespace {

void print_checked(const run::Experiment& experiment) {
  const auto lines = experiment.task().inspect();
  fmt::print("{}\n", experiment.yaml());
  for (const auto& line : lines) fmt::print("# {}\n", line);
  std::fflush(stdout);  // what follows goes to standard error
  for (const auto& remark : experiment.remarks(std::nullopt)) {
    log::warn("{}", remark);
  }
  fmt::print("# good: {} parameters, config sha256 {}\n",
             nn::parameter_count(*experiment.task().make_model()),
             experiment.hash().substr(0, 12));
}

int check_config(const std::string& name, const Overrides& overrides,
                 bool help) {
  auto document = config::Document::from_file(run::find_config(name));
  overrides.apply_to(document);
  run::Experiment experiment(document);
  if (const auto limit = overrides.seconds()) experiment.limit_time(*limit);
  if (help) {
    fmt::print("{}", config::to_help(experiment.schema()));
    return 0;
  }
  run::runtime_for_training(experiment);
  run::with_memory_hint(experiment, [&] { print_checked(experiment); });
  return 0;
}

int check_run(const std::string& path, const Overrides& overrides) {
  const auto run = train::RunDirectory::open(path);
  const auto experiment = run::changed_experiment(
      run.read_config(), overrides.change(), config::evaluation_may_change);
  const auto& task = experiment->task();
  const auto model = task.make_model();
  const auto all = train::list_checkpoints(run.checkpoints());
  for (const auto& directory : all) {
    const auto checkpoint = train::load_checkpoint(directory);
    run::set_weights(task, *model, checkpoint.model, directory.string());
    fmt::print("{}: good, step {}\n", directory.string(),
               checkpoint.state.at("step").dump());
  }
  fmt::print("{}: {} good checkpoints\n", path, all.size());
  return 0;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  struct Options {
    std::string what;
    bool keys = false;
    Overrides overrides;
  };
  const auto o = std::make_shared<Options>();
  auto* verb = app.add_subcommand(
      "check", "Check a configuration, or the checkpoints of a run");
  verb->footer(
      "A configuration is printed as resolved, every key with its meaning.\n"
      "Examples:\n"
      "  propagator check forecast/quick -s model.heads=3\n"
      "  propagator check forecast/quick --keys\n"
      "  propagator check mine.yaml --model siren\n"
      "  propagator check runs/quick");
  verb->add_option("what", o->what, "A YAML file, a name from `list`, or a run")
      ->required();
  o->overrides.add_model_to(
      *verb, "The network that solves a problem, as for `solve`");
  verb->add_flag("--keys", o->keys,
                 "Types, bounds, defaults and roles of every key instead");
  o->overrides.add_to(*verb, Overrides::Subject::kNewRun);
  verb->callback([o, &action] {
    action = [o] {
      if (fs::is_directory(o->what)) return check_run(o->what, o->overrides);
      return check_config(o->what, o->overrides, o->keys);
    };
  });
}

}  // namespace propagator::cli
