#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <thread>

#include "propagator/cli/commands.h"
#include "propagator/cli/launched_ranks.h"
#include "propagator/cli/terminal.h"
#include "propagator/core/blas_kernels.h"
#include "propagator/core/error.h"
#include "propagator/core/freed_memory.h"
#include "propagator/core/version.h"

namespace {

// A misspelt verb, which CLI11 would report as a missing one.
void expect_known_verb(const CLI::App& app, int argc, char** argv) {
  using namespace propagator;
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> verbs;
  for (const auto* verb : app.get_subcommands({})) {
    verbs.push_back(verb->get_name());
  }
  if (std::ranges::find(verbs, argv[1]) != verbs.end()) return;
  throw UsageError(
      fmt::format("unknown verb '{}'", argv[1]),
      config::did_you_mean(argv[1], verbs, "`propagator --help` lists them"));
}

// The options of the chosen verb, and of the program.
std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const auto* verb : app.get_subcommands()) {
    const auto more = options_of(*verb);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

// What no verb takes, as it was typed: CLI11 names it in reverse.
propagator::UsageError unexpected(const CLI::App& app) {
  const auto typed = app.remaining(true);
  const auto option = std::ranges::find_if(
      typed, [](const auto& word) { return word.starts_with("--"); });
  const std::string otherwise = "--help explains";
  return propagator::UsageError(
      fmt::format("not expected: {}", fmt::join(typed, " ")),
      option == typed.end() ? otherwise
                            : propagator::config::did_you_mean(
                                  option->substr(0, option->find('=')),
                                  options_of(app), otherwise));
}

// Ranks share the work of these alone; of others each would do all.
void expect_shared_verb(const CLI::App& app) {
  using namespace propagator;
  if (!ranks().are_several()) return;
  const std::set<std::string> shared{"train", "solve", "resume"};
  const auto verb = app.get_subcommands().front()->get_name();
  if (shared.contains(verb)) return;
  throw UsageError(
      fmt::format("{} works in one process, and {} were started", verb,
                  ranks().size()),
      fmt::format("ranks share the work of {}; start others without mpirun",
                  fmt::join(shared, ", ")));
}

// Says what ended the program; returns the exit code.
int report(const CLI::App& app, const std::exception& error) {
  using namespace propagator;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    return cli::report_error(unexpected(app));
  }
  const auto* parsing = dynamic_cast<const CLI::ParseError*>(&error);
  if (parsing == nullptr) return cli::report_error(error);
  const int status = app.exit(*parsing, std::cout, std::cerr);
  return status == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
}

// The same of ranks, whose error ends all of them. For one that all have, the
// first speaks: the others give it time to.
int report_of_ranks(const CLI::App& app, const std::exception& error) {
  using namespace propagator;
  if (!ranks().are_several()) return report(app, error);
  const bool asked = dynamic_cast<const CLI::Success*>(&error) != nullptr;
  if (!ranks().is_first() && asked) return 0;  // for help, of one
  if (!ranks().is_first()) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    fmt::print(stderr, "rank {}:\n", ranks().rank());
  }
  const int status = report(app, error);
  if (status != 0) ranks().abort(status);
  return status;
}

void describe(CLI::App& app, bool& quiet) {
  using namespace propagator;
  app.name("propagator");
  app.set_version_flag("--version", code_version());
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("error: {}\nhint: --help explains\n", error.what());
  });
  app.add_flag("-q,--quiet", quiet, "No log and no progress on stderr");
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "Exit codes: 0 ok, 1 failure, 2 usage or configuration, 3 data or "
      "format,\n4 numerical failure, 5 memory or device, 6 result outside its "
      "band, or an honest run\nthat leaks, 75 stopped on request with a good "
      "checkpoint.");
}

void add_verbs(CLI::App& app, propagator::cli::Action& action) {
  using namespace propagator;
  cli::add_train(app, action);
  cli::add_solve(app, action);
  cli::add_resume(app, action);
  cli::add_eval(app, action);
  cli::add_explain(app, action);
  cli::add_report(app, action);
  cli::add_reproduce(app, action);
  cli::add_bench(app, action);
  cli::add_predict(app, action);
  cli::add_generate(app, action);
  cli::add_serve(app, action);
  cli::add_data(app, action);
  cli::add_check(app, action);
  cli::add_info(app, action);
  cli::add_list(app, action);
  cli::add_manual(app, action);
}

// Returns the exit code of the action that the command line asks for.
int run_command(int argc, char** argv) {
  using namespace propagator;
  CLI::App app{
      "Transformers for physics: train them, test them, use them.\n"
      "Start with `propagator list` and `propagator train forecast/quick`."};
  bool quiet = false;
  cli::Action action;
  describe(app, quiet);
  add_verbs(app, action);
  try {
    expect_known_verb(app, argc, argv);
    app.parse(argc, argv);
    expect_shared_verb(app);
    cli::Terminal terminal(quiet);
    const ObserverScope scope(terminal);
    const int status = action();
    if (std::fflush(stdout) != 0) {
      throw FileError("cannot write the results to standard output");
    }
    return status;
  } catch (const std::exception& error) {
    return report_of_ranks(app, error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace propagator;
  // A file size limit or a closed pipe is an error to report, not a death.
  signal(SIGXFSZ, SIG_IGN);
  keep_freed_memory();
  choose_blas_kernels();
  try {
    const auto launched = cli::launched_ranks();
    if (!launched) return run_command(argc, argv);
    const RanksScope scope(*launched);
    return run_command(argc, argv);
  } catch (const std::exception& error) {
    return cli::report_error(error);
  }
}
