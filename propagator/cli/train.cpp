#include "propagator/cli/commands.h"
#include "propagator/cli/finish.h"

namespace propagator::cli {

void add_train(CLI::App& app, Action& action) {
  struct Options {
    std::string config, runs = "runs", name;
    bool force = false, json = false;
    Overrides overrides;
  };
  const auto o = std::make_shared<Options>();
  auto* verb = app.add_subcommand(
      "train", "Train a model, test it, and keep everything in a run folder");
  verb->footer(
      "Examples:\n"
      "  propagator train forecast/quick\n"
      "  propagator train configs/forecast/base-block.yaml --device cuda\n"
      "  propagator train forecast/quick --name wide -s model.width=256\n"
      "`propagator check CONFIG` prints every key with its meaning.");
  verb->add_option("config", o->config, "A YAML file, or a name from `list`")
      ->required();
  verb->add_option("--runs", o->runs, "Folder of all runs")
      ->capture_default_str();
  verb->add_option("--name", o->name, "Name of this run's folder");
  verb->add_flag("--force", o->force, "Replace a run of that name");
  verb->add_flag("--json", o->json, "Print the result as JSON");
  o->overrides.add_to(*verb, /*with_training=*/true);
  verb->callback([o, &action] {
    action = [o] {
      const auto file = find_config(o->config);
      auto document = config::Document::from_file(file);
      o->overrides.apply_to(document);
      if (!o->name.empty()) document.set("name", o->name, "--name");
      if (document.get("name").value_or("").empty()) {
        document.set("name", file.stem().string(), "the file's name");
      }
      const tasks::Experiment experiment(document);
      const auto path = std::filesystem::path(o->runs) / experiment.run().name;
      train::RunDirectory::expect_free(path, o->force);
      const auto open_run = [&] {
        return train::RunDirectory::create(path, o->force, experiment.yaml());
      };
      return train_and_report(experiment, open_run, "", o->json);
    };
  });
}

}  // namespace propagator::cli
