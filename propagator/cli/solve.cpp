#include "propagator/cli/commands.h"
#include "propagator/core/error.h"
#include "propagator/run/configurations.h"
#include "propagator/tasks/registry.h"

namespace propagator::cli {

void add_solve(CLI::App& app, Action& action) {
  struct Options : NewRun {
    std::string problem;
  };
  const auto o = std::make_shared<Options>();
  auto* verb = app.add_subcommand(
      "solve", "Solve a PDE from its text: train a network on its residual");
  verb->footer(
      "A problem is a YAML file of one screen: domain, equations, conditions.\n"
      "The rest is chosen for you, a small network in float64 that is trained\n"
      "for three minutes (train.budget), unless you choose it: a model, an\n"
      "optimiser, a precision. `propagator check PROBLEM` shows what was\n"
      "understood, and every key.\n"
      "Examples:\n"
      "  propagator solve problems/reaction.yaml\n"
      "  propagator solve mine.yaml -s train.budget=600\n"
      "  propagator solve wave --model spformer-rope --device cuda\n"
      "  propagator solve burgers -s points.per_axis=80 --name fine\n"
      "  propagator solve mine.yaml --model kan -s model.grid=8\n"
      "A problem with readings (sensors.file) is solved with them, as by\n"
      "`train` with task: reconstruct.");
  verb->add_option("problem", o->problem, "A YAML file, or a name from `list`")
      ->required();
  o->overrides.add_model_to(*verb, "A name from `list`");
  o->add_to(*verb);
  verb->callback([o, &action] {
    action = [o] {
      const auto file = run::find_config(o->problem);
      auto document = config::Document::from_file(file);
      // Readings make it a reconstruction of the same problem.
      if (!document.get("task")) {
        const bool read = tasks::has_section(document, "sensors");
        document.set("task", read ? "reconstruct" : "solve", "solve");
      }
      if (const auto task = *document.get("task");
          task != "solve" && task != "reconstruct") {
        throw UsageError(fmt::format("{} is of task {}", o->problem, task),
                         fmt::format("propagator train {}", o->problem));
      }
      auto name = file.stem().string();
      if (o->overrides.model) name += "-" + *o->overrides.model;
      return o->train(std::move(document), name);
    };
  });
}

}  // namespace propagator::cli
