#include "propagator/run/predict.h"
#include "propagator/cli/commands.h"
#include "propagator/tasks/registry.h"

namespace propagator::cli {
namespace {

std::string files_of_tasks() {
  std::string text;
  for (const auto& [name, kind] : tasks::all_tasks()) {
    if (!kind.files.empty()) text += fmt::format("{}: {}\n", name, kind.files);
  }
  return text;
}

}  // namespace

void add_predict(CLI::App& app, Action& action) {
  struct Options {
    std::string run, from, adapter, input, output;
    bool force = false;
    Overrides overrides;
  };
  const auto o = std::make_shared<Options>();
  auto* verb = app.add_subcommand("predict",
                                  "Apply a run's best model to your own data");
  verb->footer(files_of_tasks());
  verb->add_option("run", o->run, "The run's folder")->required();
  verb->add_option("-i,--input", o->input,
                   ".h5, .npz or, for columns of numbers, .csv")
      ->required();
  verb->add_option("-o,--output", o->output,
                   ".h5, .npz or, for columns of numbers, .csv; fields at "
                   "points also .vti (an even grid) or .vtp (any) for ParaView")
      ->required();
  verb->add_option("--from", o->from, "A checkpoint (default: the newest)");
  verb->add_option("--adapter", o->adapter,
                   "An adapter.safetensors that was trained from this run");
  verb->add_flag("--force", o->force, "Replace the output file");
  o->overrides.add_to(*verb, Overrides::Subject::kModel);
  verb->callback([o, &action] {
    action = [o] {
      expect_free(o->output, o->force);
      const auto run = run::open(o->run, {.from = o->from,
                                          .adapter = o->adapter,
                                          .change = o->overrides.change()});
      fmt::print("{}\n", run::predict(run, o->input, o->output));
      return 0;
    };
  });
}

}  // namespace propagator::cli
