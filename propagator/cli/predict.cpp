#include "propagator/cli/commands.h"

namespace propagator::cli {

void add_predict(CLI::App& app, Action& action) {
  struct Options {
    std::string run, from, input, output;
    bool force = false;
    Overrides overrides;
  };
  const auto o = std::make_shared<Options>();
  auto* verb = app.add_subcommand("predict",
                                  "Apply a run's best model to your own data");
  verb->footer(
      "forecast: INPUT holds `fields` (N, frames, rows, cols), of which the "
      "first visible\nframes are used, and `alpha` (N); OUTPUT gets `fields` "
      "(N, all frames, rows, cols).\n"
      "solve: INPUT holds the variables by name, one number for each point; "
      "OUTPUT gets them\nand the quantities of eval.quantities.\n"
      "locate: INPUT has a row for each hit: `event`, `sensor` (from 1) and "
      "`time` (ns);\nOUTPUT gets `event`, `x`, `y`, `z` (m) and, if the model "
      "gives them, their errors.\n"
      "Examples:\n"
      "  propagator predict runs/quick --input first.npz --output future.npz\n"
      "  propagator predict runs/wave --input points.csv --output u.csv\n"
      "  propagator predict runs/corners --input hits.csv --output places.csv");
  verb->add_option("run", o->run, "The run's folder")->required();
  verb->add_option("-i,--input", o->input, ".h5, .npz or (solve, locate) .csv")
      ->required();
  verb->add_option("-o,--output", o->output,
                   ".h5, .npz or (solve, locate) .csv")
      ->required();
  verb->add_option("--from", o->from, "A checkpoint (default: the newest)");
  verb->add_flag("--force", o->force, "Replace the output file");
  o->overrides.add_to(*verb, Overrides::Subject::kModel);
  verb->callback([o, &action] {
    action = [o] {
      expect_free(o->output, o->force);
      const auto [experiment, runtime, model] =
          load_trained(o->run, o->from, o->overrides, Weights::kBest);
      const PrecisionScope scope(runtime);
      fmt::print("{}\n", experiment->task().predict(*model, o->input, o->output,
                                                    runtime));
      return 0;
    };
  });
}

}  // namespace propagator::cli
