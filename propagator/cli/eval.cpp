#include "propagator/cli/commands.h"
#include "propagator/cli/results.h"
#include "propagator/core/files.h"
#include "propagator/run/ensemble.h"

namespace propagator::cli {

void add_eval(CLI::App& app, Action& action) {
  struct Options {
    std::string run, from, adapter, out, split = "test";
    std::vector<std::string> ensemble;
    bool last = false, json = false, force = false;
    Overrides overrides;
  };
  const auto o = std::make_shared<Options>();
  auto* verb = app.add_subcommand(
      "eval", "Test a run's best model and audit it for leaks");
  verb->footer(
      "Examples:\n"
      "  propagator eval runs/quick\n"
      "  propagator eval runs/quick --split validation --json\n"
      "  propagator eval runs/quick --split all -s data.file=mine.h5\n"
      "  propagator eval runs/bands --ensemble runs/bands-1 runs/bands-2");
  verb->add_option("run", o->run, "The run's folder")->required();
  verb->add_option("--split", o->split,
                   "train, validation, test, or all of a file")
      ->check(CLI::IsMember({"train", "validation", "test", "all"}))
      ->capture_default_str();
  verb->add_option("--from", o->from, "A checkpoint (default: the newest)");
  verb->add_option("--adapter", o->adapter,
                   "An adapter.safetensors that was trained from this run");
  verb->add_option("--ensemble", o->ensemble,
                   "Runs of other seeds, tested together with this one");
  verb->add_flag("--last", o->last,
                 "The last weights, not those of the best validation");
  verb->add_option("--out", o->out, "Also write the numbers to this JSON file");
  verb->add_flag("--json", o->json, "Print the numbers as JSON");
  verb->add_flag("--force", o->force, "Replace that file");
  o->overrides.add_to(*verb, Overrides::Subject::kModel);
  verb->callback([o, &action] {
    action = [o] {
      if (!o->out.empty()) expect_free(o->out, o->force);
      const auto run = run::open(
          o->run,
          {.from = o->from,
           .weights = o->last ? train::Weights::kLast : train::Weights::kBest,
           .adapter = o->adapter,
           .change = o->overrides.change()});
      run.prepare_data();
      const auto split = config::value_of<data::Split>(o->split);
      const auto result =
          o->ensemble.empty()
              ? run::test_run(run, split)
              : run::Ensemble(run, {o->ensemble.begin(), o->ensemble.end()},
                              {.change = o->overrides.change()})
                    .test(split);
      if (!o->out.empty()) {
        write_file_atomically(o->out, result.text());
      }
      return print_result(result, o->json);
    };
  });
}

}  // namespace propagator::cli
