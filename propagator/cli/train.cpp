#include "propagator/run/train.h"
#include "propagator/cli/commands.h"
#include "propagator/cli/results.h"
#include "propagator/cli/watched.h"
#include "propagator/run/configurations.h"

namespace propagator::cli {

void NewRun::add_to(CLI::App& verb) {
  verb.add_option("--runs", runs, "Folder of all runs")->capture_default_str();
  verb.add_option("--name", name, "Name of this run's folder");
  verb.add_flag("--force", force, "Replace a run of that name");
  verb.add_option("--from", from,
                  "Fine-tune: begin with the weights of this run or "
                  "model.safetensors (tune.from)");
  verb.add_flag("--watch", watch, kWatchHelp);
  verb.add_flag("--json", json, "Print the result as JSON");
  overrides.add_to(verb, Overrides::Subject::kNewRun);
}

int NewRun::train(config::Document document,
                  const std::string& usual_name) const {
  overrides.apply_to(document);
  if (!name.empty()) document.set("name", name, "--name");
  if (!from.empty()) document.set("tune.from", from, "--from");
  if (document.get("name").value_or("").empty()) {
    document.set("name", usual_name, "the file's name");
  }
  run::Experiment experiment(document);
  if (const auto limit = overrides.seconds()) experiment.limit_time(*limit);
  const auto folder = std::filesystem::path(runs) / experiment.run().name;
  const auto trained = watched(watch, folder, [&](Observer& its_observer) {
    return run::train(experiment, folder, force, its_observer);
  });
  return print_trained(trained, json);
}

void add_train(CLI::App& app, Action& action) {
  struct Options : NewRun {
    std::string config;
  };
  const auto o = std::make_shared<Options>();
  auto* verb = app.add_subcommand(
      "train", "Train a model, test it, and keep everything in a run folder");
  verb->footer(
      "Examples:\n"
      "  propagator train forecast/quick\n"
      "  propagator train configs/forecast/base-block.yaml --device cuda\n"
      "  propagator train forecast/quick --name wide -s model.width=256\n"
      "  propagator train mine.npz     # forecast the fields in a file\n"
      "  propagator train forecast/quick --name tuned --from runs/quick \\\n"
      "    -s plate.time_step=fixed -s tune.method=lora\n"
      "`propagator check CONFIG` prints every key with its meaning.");
  verb->add_option("config", o->config,
                   "A YAML file, a name from `list`, or a file of fields")
      ->required();
  o->add_to(*verb);
  verb->callback([o, &action] {
    action = [o] {
      auto path = std::filesystem::path(o->config);
      if (!path.has_filename()) path = path.parent_path();  // of a folder
      return o->train(run::open_config(o->config), path.stem().string());
    };
  });
}

}  // namespace propagator::cli
