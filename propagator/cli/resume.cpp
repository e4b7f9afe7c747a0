#include "propagator/cli/commands.h"
#include "propagator/cli/results.h"
#include "propagator/run/train.h"

namespace propagator::cli {

void add_resume(CLI::App& app, Action& action) {
  struct Options {
    std::string run, from;
    bool json = false;
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
  verb->add_flag("--json", o->json, "Print the result as JSON");
  o->overrides.add_to(*verb, Overrides::Subject::kRun);
  verb->callback([o, &action] {
    action = [o] {
      return print_trained(run::resume(o->run,
                                       {.from = o->from,
                                        .change = o->overrides.change(),
                                        .time_limit = o->overrides.seconds()},
                                       observer()),
                           o->json);
    };
  });
}

}  // namespace propagator::cli
