#include "propagator/cli/commands.h"
#include "propagator/cli/results.h"
#include "propagator/cli/watched.h"
#include "propagator/run/train.h"

namespace propagator::cli {

void add_resume(CLI::App& app, Action& action) {
  struct Options {
    std::string run, from;
    bool watch = false, json = false;
    Overrides overrides;
  };
  const auto o = std::make_shared<Options>();
  auto* verb = app.add_subcommand(
      "resume", "Go on with a run that was stopped or killed");
  verb->footer(
      "On the same machine the result has the same bits as a run that was "
      "never stopped.\n"
      "Example:\n  propagator resume runs/quick");
  verb->add_option("run", o->run, "The run's folder")->required();
  verb->add_option("--from", o->from,
                   "A checkpoint of it (default: the newest); later ones are "
                   "given up");
  verb->add_flag("--watch", o->watch, kWatchHelp);
  verb->add_flag("--json", o->json, "Print the result as JSON");
  o->overrides.add_to(*verb, Overrides::Subject::kRun);
  verb->callback([o, &action] {
    action = [o] {
      const run::ResumeOptions options{.from = o->from,
                                       .change = o->overrides.change(),
                                       .time_limit = o->overrides.seconds()};
      const auto trained =
          watched(o->watch, o->run, [&](Observer& its_observer) {
            return run::resume(o->run, options, its_observer);
          });
      return print_trained(trained, o->json);
    };
  });
}

}  // namespace propagator::cli
