#include "propagator/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "propagator/core/base64.h"
#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/report/animation.h"
#include "propagator/report/assets.h"
#include "propagator/report/dark_svg.h"
#include "propagator/report/html.h"
#include "propagator/report/map_grid.h"
#include "propagator/report/packed_levels.h"

namespace propagator::report {
namespace {

using nlohmann::json;

// A page stays small enough to be sent by mail.
constexpr int64_t kExplorerFrames = 101;
constexpr int64_t kExplorerBytes = 3'000'000;
// Of a field's value: steps that are smaller than any colour or pixel shows.
constexpr int kFieldBits = 14;

// As many frames as there is room for, two at least, if they are so rough that
// they cannot be packed.
int64_t explorer_frames(const FieldSeries& series) {
  const auto& all = series.prediction;
  const int64_t kinds = series.truth.defined() ? 2 : 1;
  const int64_t bytes = all.size(0) * all.size(2) * all.size(3) * kinds *
                        static_cast<int64_t>(sizeof(uint16_t));
  return std::clamp<int64_t>(kExplorerBytes / bytes, 2, kExplorerFrames);
}

json to_json(const Axis& axis) {
  return {{"label", axis.label}, {"first", axis.first}, {"last", axis.last}};
}

// JSON inside a script element: nothing in it may read as HTML, such as a name
// with "</script>", which would end it, or with "<!--<script", which would
// swallow what follows. JSON has "<" in texts alone.
std::string embedded(const json& data) {
  std::string text;
  for (const char c :
       data.dump(-1, ' ', false, json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

// Values on [low, high] as whole numbers 0 … steps; what is not a number as
// `missing`.
torch::Tensor levels_of(const torch::Tensor& values, double low, double high,
                        double steps, double missing) {
  const auto share = (values.to(torch::kCPU, torch::kFloat64) - low) /
                     (high > low ? high - low : 1);
  return (share.clamp(0, 1) * steps)
      .round()
      .nan_to_num(missing)
      .to(torch::kInt32);
}

// A map, one byte for each value, 255 where there is none.
std::string bytes_of_map(const torch::Tensor& map, double low, double high) {
  const auto levels =
      levels_of(map, low, high, 254, 255).to(torch::kUInt8).contiguous();
  return base64({reinterpret_cast<const char*>(levels.data_ptr<uint8_t>()),
                 static_cast<size_t>(levels.numel())});
}

json packed(const torch::Tensor& fields, double low, double high) {
  const auto [order, bytes] = PackedLevels::of(
      levels_of(fields, low, high, (1 << kFieldBits) - 1, 0), kFieldBits);
  return {{"order", order}, {"data", base64(bytes)}};
}

// Columns and rows of the sensors of each frame, one after the other; a
// hundredth of a node is less than a pixel.
json sensors_in(const std::vector<std::vector<NodePlace>>& frames) {
  const auto rounded = [](double node) { return std::round(100 * node) / 100; };
  auto all = json::array();
  for (const auto& frame : frames) {
    auto places = json::array();
    for (const auto& [column, row] : frame) {
      places.push_back(rounded(column));
      places.push_back(rounded(row));
    }
    all.push_back(std::move(places));
  }
  return all;
}

}  // namespace

Report::Report(fs::path folder, std::string file, std::string title,
               std::string subtitle)
    : folder_(std::move(folder)),
      file_(std::move(file)),
      title_(std::move(title)),
      subtitle_(std::move(subtitle)),
      figures_(folder_ / "figures") {}

// A section with nothing in it does not appear.
void Report::drop_empty_section() {
  if (sections_.empty() || last_heading_ + 1 < parts_.size()) return;
  sections_.pop_back();
  parts_.pop_back();
}

void Report::section(const std::string& title) {
  drop_empty_section();
  last_heading_ = parts_.size();
  const auto id = fmt::format("section-{}", sections_.size() + 1);
  html(fmt::format("{}<section id=\"{}\"><h2>{}</h2>\n",
                   sections_.empty() ? "" : "</section>\n", id,
                   escaped(title)));
  sections_.emplace_back(id, title);
}

void Report::text(const std::string& paragraph) {
  html(fmt::format("<p>{}</p>\n", escaped(paragraph)));
}

void Report::headline(const std::string& sentence) {
  html(fmt::format("<p class=\"headline\">{}</p>\n", escaped(sentence)));
}

void Report::tiles(
    const std::vector<std::pair<std::string, std::string>>& numbers) {
  std::string list = "<dl class=\"tiles\">\n";
  for (const auto& [name, value] : numbers) {
    list += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(name),
                        escaped(value));
  }
  html(list + "</dl>\n");
}

void Report::verdict(bool good, const std::string& text) {
  html(fmt::format("<p class=\"verdict {}\">{}</p>\n", good ? "good" : "bad",
                   escaped(text)));
}

void Report::table(const Table& table) {
  html(
      fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                  "aria-label=\"table\">{}</div>\n",
                  table.html()));
}

void Report::facts(
    const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string list = "<dl class=\"facts\">\n";
  for (const auto& [name, value] : facts) {
    list +=
        fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value));
  }
  html(list + "</dl>\n");
}

void Report::folded(const std::string& summary, const std::string& text) {
  html(fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n",
                   escaped(summary), escaped(text)));
}

void Report::verbatim(const std::string& text) {
  html(fmt::format("<pre>{}</pre>\n", escaped(text)));
}

void Report::mathematics(const std::vector<Formulas>& all) {
  std::string list = "<dl class=\"mathematics\">\n";
  for (const auto& [name, formulas] : all) {
    if (formulas.empty()) continue;
    list += fmt::format("<dt>{}</dt><dd>\n", escaped(name));
    for (const auto& mathml : formulas) {
      list += fmt::format("<div>{}</div>\n", mathml);
    }
    list += "</dd>\n";
  }
  html(list + "</dl>\n");
}

Report::Place Report::placed(const std::string& name, const Figure& figure,
                             const std::string& caption) {
  const double width = figures_.add(name, figure);
  const auto* maps = std::get_if<HeatMaps>(&figure);
  return {name, caption, maps == nullptr ? "" : map_grid(*maps),
          maps == nullptr, width};
}

void Report::figure(const std::string& name, const Figure& figure,
                    const std::string& caption) {
  parts_.emplace_back(placed(name, figure, caption));
}

void Report::lead_place() {
  lead_at_ = parts_.size();
  html("");
}

void Report::lead(const std::string& name, const Figure& figure,
                  const std::string& caption) {
  if (!lead_at_) return this->figure(name, figure, caption);
  parts_[*lead_at_] = placed(name, figure, caption);
  lead_at_.reset();
}

void Report::animation(const FieldSeries& series,
                       const std::vector<int64_t>& cases,
                       const std::string& name, const std::string& caption) {
  for (const char* ending : {".mp4", ".png"}) {
    std::error_code ignored;
    fs::remove(figures_.path() / (name + ending), ignored);
  }
  const auto file = write_animation(series, cases, figures_.path() / name);
  if (file.empty()) {
    html(
        "<p class=\"missing\">There is no animation: this machine has neither "
        "ffmpeg nor a build with libpng.</p>\n");
    return;
  }
  const auto bytes = base64(read_file(file));
  const auto element =
      file.extension() == ".mp4"
          ? fmt::format(
                "<video controls loop muted playsinline "
                "src=\"data:video/mp4;base64,{}\"></video>",
                bytes)
          : fmt::format("<img alt=\"{}\" src=\"data:image/png;base64,{}\">",
                        escaped(caption), bytes);
  html(fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", element,
                   escaped(caption)));
}

void Report::explorer(const FieldSeries& all) {
  const auto series = all.thinned(explorer_frames(all));
  const bool has_truth = series.truth.defined();
  json data{{"quantity", series.quantity},
            {"label", series.label()},
            {"unit", series.unit},
            {"time_label", series.time_label},
            {"times", series.times},
            {"x", to_json(series.x)},
            {"y", to_json(series.y)},
            {"rows", series.prediction.size(2)},
            {"cols", series.prediction.size(3)},
            {"bits", kFieldBits},
            {"has_truth", has_truth}};
  for (int64_t n = 0; n < series.prediction.size(0); ++n) {
    const auto range = range_of(series, n);
    // "values" are the truth where there is one. The error is kept by itself:
    // it is often smaller than a step of the truth's.
    const auto& values = has_truth ? series.truth : series.prediction;
    json one{{"name", series.cases[static_cast<size_t>(n)]},
             {"low", range.low},
             {"high", range.high},
             {"error", range.error},
             {"values", packed(values[n], range.low, range.high)}};
    if (has_truth) {
      one["difference"] = packed(series.prediction[n] - series.truth[n],
                                 -range.error, range.error);
    }
    if (!series.sensors.empty()) {
      one["sensors"] = sensors_in(series.sensors_near(n));
    }
    data["cases"].push_back(std::move(one));
  }
  html(
      fmt::format("<div class=\"explorer\" data-kind=\"fields\">"
                  "<script type=\"application/json\">{}</script></div>\n",
                  embedded(data)));
}

void Report::explorer(const MapChoices& maps) {
  json data{{"label", maps.label},
            {"x", to_json(maps.x)},
            {"y", to_json(maps.y)},
            {"rows", maps.maps.size(1)},
            {"cols", maps.maps.size(2)}};
  for (const auto& choice : maps.choices) {
    data["choices"].push_back(
        {{"name", choice.name}, {"values", choice.values}});
  }
  for (int64_t n = 0; n < maps.maps.size(0); ++n) {
    const auto [low, high] = limits(PanelRow{.panels = {{"", maps.maps[n]}}});
    data["maps"].push_back({{"low", low},
                            {"high", high},
                            {"data", bytes_of_map(maps.maps[n], low, high)}});
  }
  html(
      fmt::format("<div class=\"explorer\" data-kind=\"maps\">"
                  "<script type=\"application/json\">{}</script></div>\n",
                  embedded(data)));
}

std::string Report::shown(const Place& place) const {
  const auto under = fmt::format(
      "<figcaption>{} <span class=\"files\">figures/{}.*</span>"
      "</figcaption></figure>\n",
      escaped(place.caption), place.name);
  // A wide figure takes both columns.
  constexpr double kColumn = 560;
  const char* kind = place.width > kColumn ? " class=\"wide\"" : "";
  if (!place.maps.empty()) {
    return fmt::format("<figure{}>{}{}", kind, place.maps, under);
  }
  const auto picture = figures_.path() /
                       (place.name + (place.vector_graphics ? ".svg" : ".png"));
  if (!fs::exists(picture)) {
    return fmt::format(
        "<p class=\"missing\">Not drawn, as gnuplot is missing or failed: {} "
        "(figures/{}.gp)</p>\n",
        escaped(place.caption), place.name);
  }
  const auto bytes = read_file(picture);
  return fmt::format(
      "<figure{}><img{} width=\"{:.0f}\" alt=\"{}\" "
      "src=\"data:image/{};base64,{}\">{}",
      kind, place.vector_graphics ? "" : " class=\"paper\"", place.width,
      escaped(place.caption), place.vector_graphics ? "svg+xml" : "png",
      base64(place.vector_graphics ? with_dark_style(bytes) : bytes), under);
}

// Figures that follow one another stand in columns.
std::string Report::content() const {
  std::string content;
  bool in_columns = false;
  for (const auto& part : parts_) {
    const auto* place = std::get_if<Place>(&part);
    if ((place != nullptr) != in_columns) {
      content += in_columns ? "</div>\n" : "<div class=\"figures\">\n";
      in_columns = !in_columns;
    }
    content += place != nullptr ? shown(*place) : std::get<std::string>(part);
  }
  return content + (in_columns ? "</div>\n" : "");
}

fs::path Report::write() {
  drop_empty_section();
  try {
    figures_.draw();
  } catch (const RuntimeError& error) {
    // Pictures are not worth a run: the page says which are missing.
    log::warn("{}", error.what());
  }
  std::string navigation, content;
  for (const auto& [id, title] : sections_) {
    navigation += fmt::format("<a href=\"#{}\">{}</a>\n", id, escaped(title));
  }
  if (!FigureFolder::can_draw()) {
    log::warn(
        "no gnuplot on this machine: figures are kept as data and script; "
        "install gnuplot (Debian: gnuplot-nox), then make the page again");
    content =
        "<p class=\"missing\">This machine has no gnuplot, so the figures are "
        "kept as data and script only. Install it (Debian: gnuplot-nox) and "
        "make the page again with `propagator report`.</p>\n";
  }
  content += this->content();
  if (!sections_.empty()) content += "</section>\n";
  const auto page = folder_ / file_;
  write_file_atomically(
      page,
      fmt::format(
          "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, "
          "initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light "
          "dark\">\n<title>{0}</title>\n<style>\n:root {{\n{7}}}\n{1}</style></"
          "head>\n"
          "<body>\n<header><h1>{0}</h1><p class=\"subtitle\">{2}</p></header>\n"
          "<nav>\n{3}</nav>\n<main>\n{4}</main>\n"
          "<footer>Made by propagator.</footer>\n"
          "<script type=\"application/json\" id=\"colour-maps\">{5}</script>\n"
          "<script>\n(() => {{\n'use strict';\n{8}{6}}})();\n</script>\n"
          "</body></html>\n",
          escaped(title_), kPageStyle, escaped(subtitle_), navigation, content,
          colour_maps(), kPageScript, scale_properties(), kPanelsScript));
  return page;
}

}  // namespace propagator::report
