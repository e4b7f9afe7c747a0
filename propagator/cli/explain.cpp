#include "propagator/cli/commands.h"
#include "propagator/cli/results.h"
#include "propagator/core/error.h"
#include "propagator/explain/explanation.h"
#include "propagator/run/run_report.h"

namespace propagator::cli {

void add_explain(CLI::App& app, Action& action) {
  struct Options {
    std::string run, from;
    double work = 1;
    bool last = false, json = false;
    Overrides overrides;
  };
  const auto o = std::make_shared<Options>();
  auto* verb = app.add_subcommand(
      "explain",
      "What a run's model learned: its propagator beside the true "
      "one, attention, weights, leaks");
  verb->footer(
      "Writes explain.html, explain.json and figures/ into the run's folder.\n"
      "Examples:\n"
      "  propagator explain runs/quick\n"
      "  propagator explain runs/quick --work 10   # more of the propagator");
  verb->add_option("run", o->run, "The run's folder")->required();
  verb->add_option("--from", o->from, "A checkpoint (default: the newest)");
  verb->add_flag("--last", o->last,
                 "The last weights, not those of the best validation");
  verb->add_option("--work", o->work,
                   "Time to spend on the learned propagator, against the "
                   "usual few seconds, 0.001 to 1e6")
      ->capture_default_str();
  verb->add_flag("--json", o->json, "Print the numbers as JSON");
  o->overrides.add_to(*verb, Overrides::Subject::kModel);
  verb->callback([o, &action] {
    action = [o] {
      if (!(o->work >= 0.001 && o->work <= 1e6)) {  // nor is it NaN
        throw UsageError(fmt::format(
            "--work: expected a number from 0.001 to 1e6, got {}", o->work));
      }
      const auto run = run::open(
          o->run,
          {.from = o->from,
           .weights = o->last ? train::Weights::kLast : train::Weights::kBest,
           .change = o->overrides.change(),
           .for_pages = true});
      run.prepare_data();
      if (!run::can_be_explained(run)) {
        throw UsageError(
            "a run of this task has nothing to explain",
            "its page shows what it does: propagator report " + o->run);
      }
      const auto [page, numbers] = run::write_explanation(
          run, o->work * explain::affordable_work(run.runtime().device));
      if (o->json) {
        fmt::print("{}\n", numbers.dump(2));
        return 0;
      }
      print_explanation(numbers);
      fmt::print("  page: {}\n", page.string());
      return 0;
    };
  });
}

}  // namespace propagator::cli
