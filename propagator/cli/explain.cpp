#include <charconv>

#include "propagator/cli/commands.h"
#include "propagator/cli/results.h"
#include "propagator/core/error.h"
#include "propagator/explain/encodings.h"
#include "propagator/explain/explanation.h"
#include "propagator/run/run_report.h"

namespace propagator::cli {
namespace {

// `explain encodings`: a table that needs no run.
void add_encodings(CLI::App& verb, Action& action) {
  struct Options {
    int64_t positions = 16, dims = 4;
    bool json = false;
  };
  const auto o = std::make_shared<Options>();
  auto* table = verb.add_subcommand(
      "encodings",
      "The sinusoidal positional encodings, as in the heat-plate paper");
  table->footer(
      "The slowest dimension is on the left, as the first digit of a number; "
      "--json has them in full, from dimension 0 on.\nExample:\n  propagator "
      "explain encodings --positions 16 --dims 4");
  table->add_option("--positions", o->positions, "How many, from 0 on")
      ->capture_default_str();
  table->add_option("--dims", o->dims, "Dimensions of an encoding, even")
      ->capture_default_str();
  table->add_flag("--json", o->json, "Print the numbers as JSON");
  table->callback([o, &action] {
    action = [o] {
      if (o->json) {
        fmt::print("{}\n",
                   explain::encoding_numbers(o->positions, o->dims).dump(2));
      } else {
        fmt::print("{}", explain::encoding_table(o->positions, o->dims).text());
      }
      return 0;
    };
  });
}

struct ExplainCommand {
  std::string run, from, only, cell;
  double work = 1;
  bool last = false, json = false;
  Overrides overrides;
};

explain::Part part_named(const std::string& text) {
  try {
    return config::value_of<explain::Part>(text);
  } catch (const std::invalid_argument& error) {
    throw UsageError(fmt::format("--only: {}, got {}", error.what(), text));
  }
}

// Whole numbers apart by commas; none of an empty text. (A list of CLI11 would
// take the folder behind it for a number.)
std::vector<int64_t> cell_in(const std::string& text) {
  std::vector<int64_t> cell;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const auto [next, error] = std::from_chars(at, end, cell.emplace_back());
    const bool last = next == end;
    if (error != std::errc() || (!last && (*next != ',' || next + 1 == end))) {
      throw UsageError(fmt::format(
          "--cell: expected whole numbers apart by commas, as 16,8, got {}",
          text));
    }
    at = last ? end : next + 1;
  }
  return cell;
}

int explain_run(const ExplainCommand& o) {
  if (o.run.empty()) {
    throw UsageError("explain: a run's folder is required",
                     "`propagator explain --help` shows how it is used");
  }
  if (!(o.work >= 0.001 && o.work <= 1e6)) {  // nor is it NaN
    throw UsageError(fmt::format(
        "--work: expected a number from 0.001 to 1e6, got {}", o.work));
  }
  std::optional<explain::Part> part;
  if (!o.only.empty()) part = part_named(o.only);
  const auto cell = cell_in(o.cell);
  const auto run = run::open(
      o.run, {.from = o.from,
              .weights = o.last ? train::Weights::kLast : train::Weights::kBest,
              .change = o.overrides.change(),
              .for_pages = true});
  run.prepare_data();
  if (!run::can_be_explained(run)) {
    throw UsageError("a run of this task has nothing to explain",
                     "its page shows what it does: propagator report " + o.run);
  }
  const auto [page, numbers] = run::write_explanation(
      run, {.max_work = o.work * explain::affordable_work(run.runtime().device),
            .cell = cell,
            .only = part});
  if (o.json) {
    fmt::print("{}\n", numbers.dump(2));
    return 0;
  }
  print_explanation(numbers);
  fmt::print("  page: {}\n", page.string());
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ExplainCommand>();
  auto* verb = app.add_subcommand(
      "explain",
      "What a run's model learned: its propagator beside the true "
      "one, attention, weights, leaks");
  verb->footer(
      "Writes explain.html, explain.json and figures/ into the run's folder.\n"
      "Examples:\n"
      "  propagator explain runs/quick\n"
      "  propagator explain runs/quick --work 10   # more of the propagator\n"
      "  propagator explain runs/blobs --cell 4,20 # of a field, at that cell\n"
      "  propagator explain runs/blobs --only attention\n"
      "  propagator explain encodings              # a table, without a run");
  add_encodings(*verb, action);
  verb->add_option("run", o->run, "The run's folder");
  verb->add_option("--from", o->from, "A checkpoint (default: the newest)");
  verb->add_flag("--last", o->last,
                 "The last weights, not those of the best validation");
  verb->add_option("--work", o->work,
                   "Time to spend on the learned propagator, against the "
                   "usual few seconds, 0.001 to 1e6")
      ->capture_default_str();
  verb->add_option("--cell", o->cell,
                   "Place of the cell to show, from 0 along each axis of the "
                   "data, as 16,8: what it takes from where, and where its "
                   "patch attends to; of a heat plate the point source")
      ->type_name("I,J");
  verb->add_option("--only", o->only,
                   "One part alone: propagator, attention or leaks");
  verb->add_flag("--json", o->json, "Print the numbers as JSON");
  o->overrides.add_to(*verb, Overrides::Subject::kModel);
  verb->callback([o, verb, &action] {
    if (!verb->get_subcommands().empty()) return;
    action = [o] { return explain_run(*o); };
  });
}

}  // namespace propagator::cli
