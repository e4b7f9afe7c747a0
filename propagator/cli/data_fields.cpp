#include "propagator/cli/data_fields.h"

#include "propagator/cli/stop_signals.h"
#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/fields/field_summary.h"
#include "propagator/report/field_sheet.h"
#include "propagator/report/png.h"
#include "propagator/report/table.h"

namespace propagator::cli {
namespace {

using nlohmann::json;

// What a picture has of each channel: frames of a case or, of fields along a
// line, cases.
constexpr int64_t kShownFrames = 5, kShownCases = 4, kShownChannels = 8;

struct ConvertArguments {
  std::string in, out;
  data::FieldChoices choices;
  bool force = false;
};

std::vector<int64_t> fields_shape(const data::FieldSource& source) {
  std::vector<int64_t> shape{source.cases(), source.frames()};
  for (const int64_t n : source.nodes()) shape.push_back(n);
  shape.push_back(std::ssize(source.layout().channels));
  return shape;
}

std::pair<double, double> ends_of(const torch::Tensor& at) {
  return {at[0].item<double>(), at[-1].item<double>()};
}

json numbers_json(const std::vector<std::string>& names,
                  const std::vector<data::FieldRange>& ranges) {
  auto all = json::array();
  for (size_t n = 0; n < names.size(); ++n) {
    all.push_back({{"name", names[n]},
                   {"smallest", ranges[n].smallest},
                   {"largest", ranges[n].largest},
                   {"mean", ranges[n].mean},
                   {"deviation", ranges[n].deviation}});
  }
  return all;
}

void add_rows(report::Table& table, const char* kind,
              const std::vector<std::string>& names,
              const std::vector<data::FieldRange>& ranges) {
  const auto number = [](double x) { return fmt::format("{:.6g}", x); };
  for (size_t n = 0; n < names.size(); ++n) {
    const auto& range = ranges[n];
    table.row({kind, plain_text(names[n]), number(range.smallest),
               number(range.mean), number(range.largest),
               number(range.deviation)});
  }
}

// Space to the right, time downwards.
report::SheetRow lines_row(const torch::Tensor& cases, int64_t channel) {
  report::SheetRow row;
  for (int64_t n = 0; n < cases.size(0); ++n) {
    row.titles.push_back(fmt::format("case {}", n + 1));
    row.panels.push_back(cases[n].select(-1, channel));
  }
  return row;
}

// Of the first case: x to the right, y upwards; in space the middle plane.
report::SheetRow frames_row(const torch::Tensor& frames, int64_t channel) {
  report::SheetRow row;
  const int64_t last = frames.size(0) - 1;
  int64_t shown = -1;
  for (int64_t k = 0; k < kShownFrames; ++k) {
    const int64_t t = last * k / (kShownFrames - 1);
    if (t == shown) continue;
    shown = t;
    auto plane = frames[t].select(-1, channel);
    if (plane.dim() == 3) plane = plane.select(2, plane.size(2) / 2);
    row.titles.push_back(fmt::format("frame {}", t));
    row.panels.push_back(plane.t().flip(0));
  }
  return row;
}

int convert(const ConvertArguments& o) {
  const data::FieldSource source(o.in, o.choices);
  expect_free(o.out, o.force);
  std::error_code ignored;
  if (std::filesystem::equivalent(o.in, o.out, ignored)) {
    throw UsageError(fmt::format("[data] {} cannot be converted to itself",
                                 plain_text(o.in)));
  }
  fmt::print("{}\n", source.describe());
  const StopSignals signals;
  data::write_fields(
      source, o.out,
      {{"made_by", "propagator data convert"},
       {"from", plain_text(std::filesystem::path(o.in).filename().string())},
       {"taken_for", source.kind()}});
  fmt::print("{} cases in {}\n", source.cases(), plain_text(o.out));
  return 0;
}

}  // namespace

json fields_json(const data::FieldSource& source) {
  const auto& layout = source.layout();
  auto axes = json::array();
  for (const auto& axis : layout.axes) {
    const auto [first, last] = ends_of(axis.at);
    axes.push_back({{"name", axis.name},
                    {"points", axis.at.numel()},
                    {"first", first},
                    {"last", last},
                    {"boundary", config::name_of(axis.boundary)}});
  }
  const auto [first, last] = ends_of(layout.times);
  json all{
      {"layout", source.kind()},
      {"shape", fields_shape(source)},
      {"cases", source.cases()},
      {"times",
       {{"frames", source.frames()}, {"first", first}, {"last", last}}},
      {"axes", axes},
      {"channels", numbers_json(layout.channels, channel_ranges(source))},
      {"parameters", numbers_json(layout.parameters, parameter_ranges(source))},
      {"constants", numbers_json(layout.constants, constant_ranges(source))},
      {"remarks", source.remarks()}};
  if (source.has_split()) {
    const auto split = source.split(0);
    all["split"] = {{"train", split.train.size()},
                    {"validation", split.validation.size()},
                    {"test", split.test.size()}};
  }
  return all;
}

void print_fields(const data::FieldSource& source) {
  const auto& layout = source.layout();
  report::Table grid({"axis", "points", "first", "last", "boundary"});
  const auto add = [&](const std::string& name, const torch::Tensor& at,
                       const std::string& boundary) {
    const auto [first, last] = ends_of(at);
    grid.row({plain_text(name), fmt::format("{}", at.numel()),
              fmt::format("{:.6g}", first), fmt::format("{:.6g}", last),
              boundary});
  };
  add("time", layout.times, "");
  for (const auto& axis : layout.axes) {
    add(axis.name, axis.at, config::name_of(axis.boundary));
  }
  report::Table table({"", "name", "smallest", "mean", "largest", "deviation"});
  add_rows(table, "channel", layout.channels, channel_ranges(source));
  add_rows(table, "number of each case", layout.parameters,
           parameter_ranges(source));
  add_rows(table, "constant input", layout.constants, constant_ranges(source));
  fmt::print("{}: {} cases, ({})\n\n{}\n{}", plain_text(source.kind()),
             source.cases(), fmt::join(fields_shape(source), ", "), grid.text(),
             table.text());
  for (const auto& remark : source.remarks()) {
    fmt::print("\n  {}", plain_text(remark));
  }
  if (!source.remarks().empty()) fmt::print("\n");
}

void write_picture(const data::FieldSource& source,
                   const std::filesystem::path& out) {
  const auto& layout = source.layout();
  const bool lines = layout.axes.size() == 1;
  const auto cases = source.values(
      0, lines ? std::min(kShownCases, source.cases()) : int64_t{1});
  std::vector<report::SheetRow> rows;
  const auto channels = std::min(kShownChannels, std::ssize(layout.channels));
  for (int64_t c = 0; c < channels; ++c) {
    rows.push_back(lines ? lines_row(cases, c) : frames_row(cases[0], c));
    rows.back().label =
        plain_text(layout.channels[static_cast<size_t>(c)]) +
        (lines ? ", x to the right, time downwards" : ", case 1");
  }
  report::write_png(out, report::field_sheet(rows));
}

void add_convert(CLI::App& verb, Action& action) {
  const auto o = std::make_shared<ConvertArguments>();
  auto* make = verb.add_subcommand(
      "convert", "Write fields of any layout that is known as a file of ours");
  make->footer(
      "IN is a file (.h5, .hdf5, .npz, .mat) or folder of fields: of ours, of "
      "The Well, of\nPDEBench, a folder of .npy files, or any array. OUT is "
      "there when it is complete, or not\nat all; only .h5 is written some "
      "cases at a time.\n"
      "Examples:\n"
      "  propagator data convert 1D_Advection_Sols_beta0.4.hdf5 advection.h5\n"
      "  propagator data convert mine.npz fields.h5 --axes time,case,x,y "
      "--boundaries periodic");
  make->add_option("in", o->in, "File or folder of fields")->required();
  make->add_option("out", o->out, ".h5 or .npz")->required();
  make->add_option("--array", o->choices.array, "Which array has the fields");
  make->add_option("--axes", o->choices.axes,
                   "What its axes are: case,time,x,y,channel")
      ->delimiter(',');
  make->add_option("--channels", o->choices.channels, "Names of the channels")
      ->delimiter(',');
  make->add_option("--constants", o->choices.constants,
                   "Names of fields that do not change in time, or none")
      ->delimiter(',');
  make->add_option("--boundaries", o->choices.boundaries,
                   "periodic, wall or open, one or for each axis")
      ->delimiter(',');
  make->add_flag("--force", o->force, "Replace the file");
  make->callback([o, &action] { action = [o] { return convert(*o); }; });
}

}  // namespace propagator::cli
