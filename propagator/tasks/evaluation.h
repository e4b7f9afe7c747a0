#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "propagator/report/figure.h"
#include "propagator/report/table.h"

namespace propagator::tasks {

// A number by which runs are compared.
struct Metric {
  std::string name;
  double value;
  // What the paper claims for it; nothing if it says nothing.
  std::optional<double> published = std::nullopt;
};

// A test as a value: all that tables, pages and comparisons show of it. It is
// stored whole in result.json, so that nobody has to know the task's numbers
// to show them again.
struct Evaluation {
  nlohmann::json numbers = nlohmann::json::object();  // what was measured
  report::Table table{{}};                            // the numbers for people
  // The result in one sentence; empty where the first metric says it.
  std::string headline = "";
  std::vector<std::string> remarks = {};  // to say below the table
  std::vector<Metric> metrics = {};       // the most telling first
  // The result over time or whatever it runs along; our curve comes first.
  report::LinePlot curves = {};
  // The training has come to nothing, however it ended.
  bool failed = false;

  // The numbers, and all the rest under "evaluation".
  nlohmann::json to_json() const;
  // Whether it is of this form; results of older programs have numbers alone,
  // or one published number for whatever metric.
  static bool is_in(const nlohmann::json& result);
  // DataError if it is damaged.
  static Evaluation from_json(const nlohmann::json& result);
};

}  // namespace propagator::tasks
