#include "propagator/run/generate.h"

#include "propagator/cli/commands.h"

namespace propagator::cli {

void add_generate(CLI::App& app, Action& action) {
  struct Options {
    std::string run, from, adapter, output;
    run::GenerateOptions how;
    bool force = false;
    Overrides overrides;
  };
  const auto o = std::make_shared<Options>();
  auto* verb =
      app.add_subcommand("generate", "Draw new cases from a run's best model");
  verb->footer(
      "Runs of the task density draw samples of the distribution they "
      "learned.\nExamples:\n  propagator generate runs/lecture-maf -o new.csv "
      "--count 5000\n  propagator generate runs/stars -o new.csv --given "
      "ages.csv --count 10   # ten of each row");
  verb->add_option("run", o->run, "The run's folder")->required();
  verb->add_option("-o,--output", o->output, ".csv, .h5 or .npz")->required();
  verb->add_option("-n,--count", o->how.count,
                   "New cases (default: 1000); with --given, of each row")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  verb->add_option("--seed", o->how.seed,
                   "Of the random numbers (default: 0): the same seed, the "
                   "same cases");
  verb->add_option("--given", o->how.given,
                   "A table of what the model is given");
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
      fmt::print("{}\n", run::generate(run, o->how, o->output));
      return 0;
    };
  });
}

}  // namespace propagator::cli
