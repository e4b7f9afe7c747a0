#include "propagator/tasks/evaluation.h"

#include <fmt/format.h>

#include "propagator/core/error.h"
#include "propagator/core/json.h"

namespace propagator::tasks {
namespace {

using nlohmann::json;
using report::Series;

constexpr const char* kPart = "evaluation";
constexpr const char* kPublished = "published";  // of a metric

std::vector<double> numbers_of(const json& values) {
  std::vector<double> numbers;
  for (const auto& value : values) numbers.push_back(number_of(value));
  return numbers;
}

json axis_json(const report::Axis& axis) {
  return {{"label", axis.label},
          {"first", axis.first},
          {"last", axis.last},
          {"log", axis.log}};
}

report::Axis axis_of(const json& axis) {
  return {.label = axis.at("label"),
          .first = axis.at("first"),
          .last = axis.at("last"),
          .log = axis.at("log")};
}

json plot_json(const report::LinePlot& plot) {
  json series = json::array(), events = json::array();
  for (const auto& one : plot.series) {
    series.push_back({{"name", one.name},
                      {"x", one.x},
                      {"y", one.y},
                      {"dashed", one.style == Series::Style::kDashed}});
  }
  for (const auto& event : plot.events) {
    events.push_back({{"x", event.x}, {"label", event.label}});
  }
  json bands = json::array();
  for (const auto& band : plot.bands) {
    bands.push_back({{"name", band.name},
                     {"x", band.x},
                     {"low", band.low},
                     {"high", band.high}});
  }
  return {{"title", plot.title},    {"x", axis_json(plot.x)},
          {"y", axis_json(plot.y)}, {"series", series},
          {"events", events},       {"bands", bands}};
}

report::LinePlot plot_of(const json& stored) {
  report::LinePlot plot{.title = stored.at("title"),
                        .x = axis_of(stored.at("x")),
                        .y = axis_of(stored.at("y"))};
  for (const auto& one : stored.at("series")) {
    plot.series.push_back({.name = one.at("name"),
                           .x = numbers_of(one.at("x")),
                           .y = numbers_of(one.at("y")),
                           .style = one.at("dashed").get<bool>()
                                        ? Series::Style::kDashed
                                        : Series::Style::kLine});
    if (plot.series.back().x.size() != plot.series.back().y.size()) {
      throw DataError("a curve has not as many x as y");
    }
  }
  for (const auto& event : stored.at("events")) {
    plot.events.push_back({event.at("x"), event.at("label")});
  }
  // Results of older programs have none.
  for (const auto& one : stored.value("bands", json::array())) {
    plot.bands.push_back({.name = one.at("name"),
                          .x = numbers_of(one.at("x")),
                          .low = numbers_of(one.at("low")),
                          .high = numbers_of(one.at("high"))});
    const auto& band = plot.bands.back();
    if (band.x.size() != band.low.size() || band.x.size() != band.high.size()) {
      throw DataError("a band has not as many x as y");
    }
  }
  return plot;
}

}  // namespace

json Evaluation::to_json() const {
  json named = json::array();
  for (const auto& [name, value, published] : metrics) {
    named.push_back({{"name", name},
                     {"value", value},
                     {kPublished, published ? json(*published) : nullptr}});
  }
  json result = numbers;
  result["failed"] = failed;
  result[kPart] = {{"headline", headline},
                   {"table", table.rows()},
                   {"remarks", remarks},
                   {"metrics", named},
                   {"curves", plot_json(curves)}};
  return result;
}

bool Evaluation::is_in(const json& result) {
  return result.contains(kPart) && !result.at(kPart).contains(kPublished);
}

Evaluation Evaluation::from_json(const json& result) {
  try {
    const auto& part = result.at(kPart);
    Evaluation evaluation;
    evaluation.numbers = result;
    evaluation.numbers.erase(kPart);
    evaluation.table = report::Table::of_rows(part.at("table"));
    evaluation.headline = part.value("headline", "");
    evaluation.remarks = part.at("remarks");
    for (const auto& metric : part.at("metrics")) {
      const auto& published = metric.at(kPublished);
      evaluation.metrics.push_back(
          {metric.at("name"), number_of(metric.at("value")),
           published.is_null() ? std::nullopt
                               : std::optional(published.get<double>())});
    }
    evaluation.curves = plot_of(part.at("curves"));
    evaluation.failed = result.at("failed");
    if (evaluation.metrics.empty()) throw DataError("it has no metric");
    if (evaluation.table.rows().empty()) throw DataError("it has no table");
    return evaluation;
  } catch (const json::exception& error) {
    throw DataError(fmt::format("not a result of ours: {}", error.what()));
  }
}

}  // namespace propagator::tasks
