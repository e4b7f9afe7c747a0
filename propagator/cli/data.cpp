#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "propagator/cli/commands.h"
#include "propagator/cli/data_fields.h"
#include "propagator/cli/stop_signals.h"
#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/json.h"
#include "propagator/core/log.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/tensor_file.h"
#include "propagator/report/table.h"
#include "propagator/run/configurations.h"
#include "propagator/run/simulation.h"
#include "propagator/tasks/task.h"

namespace propagator::cli {
namespace {

constexpr int64_t kRowsAtOnce = 64;

struct DataArguments {
  std::string name, file, picture;
  std::vector<std::string> rows;
  std::string results = "results";
  bool force = false, json = false, draft = false;
  Overrides overrides;
};

void print_numbers(const nlohmann::json& numbers) {
  report::Table table({"number", "value"});
  for (const auto& [name, value] : numbers.items()) {
    if (!value.is_number()) continue;
    table.row({name, fmt::format("{:.6g}", value.get<double>())});
  }
  fmt::print("{}", table.text());
}

int generate_simulated(const DataArguments& o, const std::string& simulator,
                       const config::Document& document) {
  const run::Simulation simulation(simulator, document);
  expect_free(o.file, o.force);
  const StopSignals signals;
  print_numbers(run::write_simulation(simulation, o.file));
  fmt::print("{} in {}\n", o.name, o.file);
  return 0;
}

int validate(const DataArguments& o) {
  run::ValidationRequest request{
      .simulator = o.name, .rows = o.rows, .out = o.results, .draft = o.draft};
  o.overrides.apply_to(request.where);
  const auto results = run::validate_simulator(request);
  report::Table table({"row", "number", "ours", "band", "", "source"});
  bool within = true;
  for (const auto& result : results) {
    within = within && result.within;
    for (const auto& one : result.summary.at("bands")) {
      const auto& value = one.at("value");
      const auto row = result.summary.at("row").get<std::string>();
      table.row(
          {row + (o.draft ? " (draft)" : ""), one.at("number"),
           value.is_number() ? fmt::format("{:.5g}", value.get<double>()) : "-",
           fmt::format("{} to {}", one.at("band")[0].get<double>(),
                       one.at("band")[1].get<double>()),
           one.at("within").get<bool>() ? "within" : "outside",
           one.at("source")});
    }
  }
  fmt::print("\n{}", table.text());
  return static_cast<int>(within ? ExitCode::kOk : ExitCode::kOutsideBand);
}

int generate(const DataArguments& o) {
  const auto &name = o.name, &out = o.file;
  auto document = run::document_of(name);
  o.overrides.apply_to(document);
  if (const auto simulator = run::simulator_of(document)) {
    return generate_simulated(o, *simulator, document);
  }
  const run::Experiment experiment(document);
  const auto* writer =
      dynamic_cast<const tasks::DataWriter*>(&experiment.task());
  if (writer == nullptr) {
    throw UsageError(
        fmt::format("[data] data of the task {} cannot be written to a file",
                    experiment.run().task),
        "they are drawn from the seed wherever they are used");
  }
  expect_free(out, o.force);
  const auto runtime = experiment.make_runtime();
  const RuntimeScope scope(runtime, experiment.run().threads);
  const nlohmann::json note{{"made_by", "propagator data generate"},
                            {"seed", experiment.run().seed},
                            {"config", experiment.yaml()}};
  const auto written =
      writer->write_data(out, experiment.run().seed, runtime, note.dump());
  fmt::print("{} in {}\n", written, out);
  return 0;
}

// What a note, which anybody may have written, says under `key`.
std::optional<std::string> text_of(const nlohmann::json& note,
                                   const char* key) {
  const auto found = note.find(key);
  if (found == note.end() || !found->is_string()) return std::nullopt;
  return plain_text(found->get<std::string>(), /*kept=*/"\n\t");
}

// An array in numbers: its shape, its finite values, and how many are not.
struct Range {
  std::vector<int64_t> shape;
  double smallest = std::numeric_limits<double>::infinity();
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  int64_t finite = 0, not_finite = 0;

  double mean() const { return sum / static_cast<double>(finite); }
};

Range range_of(const data::TensorReader& reader, const std::string& name) {
  Range range{.shape = reader.shape(name)};
  const int64_t rows = range.shape.empty() ? 0 : range.shape[0];
  for (int64_t n = 0; n < rows; n += kRowsAtOnce) {
    const auto all = reader.rows(name, n, std::min(kRowsAtOnce, rows - n))
                         .to(torch::kFloat64);
    const auto part = all.masked_select(torch::isfinite(all));
    range.not_finite += all.numel() - part.numel();
    if (part.numel() == 0) continue;
    range.smallest = std::min(range.smallest, part.min().item<double>());
    range.largest = std::max(range.largest, part.max().item<double>());
    range.sum += part.sum().item<double>();
    range.finite += part.numel();
  }
  return range;
}

void print_ranges(const std::map<std::string, Range>& ranges,
                  const data::TensorReader& reader) {
  report::Table table(
      {"array", "shape", "smallest", "mean", "largest", "not finite"});
  for (const auto& [name, range] : ranges) {
    const auto text = [&](double value) {
      return range.finite > 0 ? fmt::format("{:.6g}", value) : "-";
    };
    table.row({name, fmt::format("({})", fmt::join(range.shape, ", ")),
               text(range.smallest), text(range.mean()), text(range.largest),
               fmt::format("{}", range.not_finite)});
  }
  fmt::print("{}", table.text());
  if (!reader.unread().empty()) {
    fmt::print("\n  not read, since they are no arrays of numbers: {}\n",
               plain_text(fmt::format("{}", fmt::join(reader.unread(), ", "))));
  }
  const auto note = parse_json(reader.note());
  if (!note.is_object()) return;
  fmt::print("\n  made by: {}\n", text_of(note, "made_by").value_or("?"));
  if (const auto numbers = note.find("numbers");
      numbers != note.end() && numbers->is_object()) {
    for (const auto& [name, value] : numbers->items()) {
      if (!value.is_number()) continue;
      fmt::print("  {}: {:.6g}\n", plain_text(name), value.get<double>());
    }
  }
  if (const auto config = text_of(note, "config")) fmt::print("\n{}", *config);
}

nlohmann::json ranges_json(const std::map<std::string, Range>& ranges,
                           const data::TensorReader& reader) {
  auto arrays = nlohmann::json::array();
  for (const auto& [name, range] : ranges) {
    auto& array =
        arrays.emplace_back(nlohmann::json{{"name", name},
                                           {"shape", range.shape},
                                           {"not_finite", range.not_finite}});
    if (range.finite == 0) continue;
    array["smallest"] = range.smallest;
    array["mean"] = range.mean();
    array["largest"] = range.largest;
  }
  return {
      {"arrays", arrays}, {"unread", reader.unread()}, {"note", reader.note()}};
}

// What is wrong with fields is no reason not to show what a file holds.
void warn_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const DataError& error) {
    log::warn("{}", error.what());
  }
}

// Of fields in any layout, guessed ones too.
void draw_fields(const DataArguments& o) {
  const std::filesystem::path out = o.picture;
  if (out.extension() != ".png") {
    throw UsageError(
        fmt::format("[data] expected a picture named *.png, got {}",
                    plain_text(o.picture)));
  }
  expect_free(out, o.force);
  write_picture(data::FieldSource(o.file, {}), out);
  log::info("the first fields are in {}", o.picture);
}

int describe(const std::string& path, bool as_json) {
  std::optional<data::FieldSource> fields;
  const auto look = [&] {
    if (auto found = data::known_fields(path)) fields = std::move(*found);
  };
  std::error_code ignored;  // such as of a name that is too long
  const bool folder = std::filesystem::is_directory(path, ignored);
  const auto reader = folder ? nullptr : data::TensorReader::open(path);
  if (folder) {
    look();
  } else {
    warn_of(look);
  }
  // Fields of ours come with their arrays and note, those of others alone.
  if (fields && fields->note().empty()) {
    if (as_json) {
      const nlohmann::json all{{"fields", fields_json(*fields)}};
      fmt::print("{}\n", all.dump(2));
    } else {
      print_fields(*fields);
    }
    return 0;
  }
  if (!reader) {
    throw UsageError(plain_text(path) + " is a folder without fields",
                     "name a file, or a folder of .npy files, or one with "
                     "train, valid and test");
  }
  std::map<std::string, Range> ranges;
  for (const auto& [name, shape] : reader->shapes()) {
    ranges[name] = range_of(*reader, name);
  }
  if (ranges.empty()) {
    throw DataError(
        path + " has no array of numbers",
        reader->unread().empty()
            ? ""
            : fmt::format("it has {}", fmt::join(reader->unread(), ", ")));
  }
  if (as_json) {
    auto all = ranges_json(ranges, *reader);
    if (fields) warn_of([&] { all["fields"] = fields_json(*fields); });
    fmt::print("{}\n", all.dump(2));
    return 0;
  }
  if (fields) {
    warn_of([&] {
      print_fields(*fields);
      fmt::print("\n");
    });
  }
  print_ranges(ranges, *reader);
  return 0;
}

void add_data_generate(CLI::App& verb, Action& action) {
  const auto o = std::make_shared<DataArguments>();
  auto* make = verb.add_subcommand(
      "generate",
      "Simulate, or make the data of a configuration, and write it");
  std::string footer = "NAME is a configuration, or a simulator:\n";
  for (const auto& [name, help] : helps_of(data::simulators())) {
    footer += fmt::format("  {:<18} {}\n", name, help);
  }
  make->footer(
      footer +
      "`propagator check wake --keys` explains every key of a simulator. The "
      "file's note has\nits keys and numbers. It is written when all is "
      "computed, or not at all.\n"
      "Examples:\n"
      "  propagator data generate forecast/quick --out plates.h5 "
      "-s data.cases=100\n"
      "  propagator data generate locate/corners-jitter --out events.csv "
      "-s data.events=1000\n"
      "  propagator data generate data/ring --out ring.h5   # a benchmark\n"
      "  propagator data generate advection --out advection.h5 "
      "-s field.cases=100\n"
      "  propagator data generate wake --out wake.h5        # Re = 100\n"
      "  propagator data generate wake --out coarse.npz -s wake.modes=32 "
      "-s wake.rings=97 \\\n"
      "    -s wake.outer_radius=20 -s wake.sponge_radius=9 -s wake.dt=0.0125");
  make->add_option("name", o->name,
                   "A simulator, a YAML file, or a name from `list`")
      ->required();
  make->add_option("-o,--out", o->file, ".h5 or .npz, or .csv of events")
      ->required();
  make->add_flag("--force", o->force, "Replace the file");
  o->overrides.add_to(*make, Overrides::Subject::kModel);
  make->callback([o, &action] { action = [o] { return generate(*o); }; });
}

void add_validate(CLI::App& verb, Action& action) {
  const auto o = std::make_shared<DataArguments>();
  auto* check = verb.add_subcommand("validate",
                                    "Compare a simulator with the literature");
  check->footer(
      "Writes OUT/SIMULATOR/ROW.json of each row. A number outside its band "
      "ends the program\nwith 6.\n"
      "Examples:\n"
      "  propagator data validate wake\n"
      "  propagator data validate wake re-40 --draft --out /tmp/results");
  check->add_option("simulator", o->name, "A simulator from `list`")
      ->required();
  check->add_option("rows", o->rows, "Rows of it (default: all)");
  check->add_option("--out", o->results, "Folder of the results")
      ->capture_default_str();
  check->add_flag("--draft", o->draft,
                  "Mark the rows as drafts: a program built from changed "
                  "sources writes no others");
  check->add_option("--device", o->overrides.device,
                    "auto, cpu, cuda or cuda:N");
  check->add_option("--threads", o->overrides.threads,
                    "CPU threads (0: all cores)");
  check->callback([o, &action] { action = [o] { return validate(*o); }; });
}

void add_info_of_file(CLI::App& verb, Action& action) {
  const auto o = std::make_shared<DataArguments>();
  auto* look = verb.add_subcommand("info",
                                   "Arrays, shapes and ranges of a .h5, .npz "
                                   "or .mat file; axes and channels "
                                   "of fields");
  look->add_option("file", o->file, ".h5, .npz or .mat, or a folder of fields")
      ->required();
  look->add_flag("--json", o->json, "Print it as JSON");
  look->add_option("--picture", o->picture,
                   "Draw the first fields: frames of a case or, of fields "
                   "along a line, cases over space and time (.png)");
  look->add_flag("--force", o->force, "Replace that picture");
  look->callback([o, &action] {
    action = [o] {
      if (!o->picture.empty()) draw_fields(*o);
      return describe(o->file, o->json);
    };
  });
}

}  // namespace

void add_data(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("data", "Make or inspect data files");
  verb->require_subcommand(1);
  add_data_generate(*verb, action);
  add_validate(*verb, action);
  add_info_of_file(*verb, action);
  add_convert(*verb, action);
}

}  // namespace propagator::cli
