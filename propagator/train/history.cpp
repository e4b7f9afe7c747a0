#include "propagator/train/history.h"

#include <fmt/format.h>

#include <sstream>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/json.h"
#include "propagator/core/plain_text.h"

namespace propagator::train {
namespace {

// nlohmann::json::exception if it is not a line of ours.
void add(const nlohmann::json& line, History& history) {
  const bool validation = line.value("kind", "") == "validation";
  auto& curves = validation ? history.validation : history.train;
  const double step = line.at("step").get<double>();
  curves.step.push_back(step);
  curves.loss.push_back(number_of(line.value("loss", nlohmann::json(0.0))));
  curves.rate.push_back(number_of(line.value("lr", nlohmann::json(0.0))));
  const auto terms = line.value("terms", nlohmann::json::object());
  for (const auto& [name, value] : terms.items()) {
    if (!is_plain_text(name)) {
      throw DataError("a term has a control character in its name");
    }
    auto& term = curves.terms[name];
    term.step.push_back(step);
    term.value.push_back(number_of(value));
  }
}

}  // namespace

History read_history(const fs::path& metrics) {
  History history;
  if (!fs::exists(metrics)) return history;
  std::istringstream lines(read_file(metrics));
  int64_t number = 0;
  const auto fail = [&](const char* why) {
    throw DataError(
        fmt::format("{}: line {}: {}", metrics.string(), number, why),
        "without that line the others can be shown");
  };
  for (std::string text; std::getline(lines, text);) {
    ++number;
    const auto line = parse_json(text);
    if (!line.is_object() || !line.contains("step")) continue;
    try {
      add(line, history);
    } catch (const nlohmann::json::exception& error) {
      fail(error.what());
    } catch (const DataError& error) {
      fail(error.what());
    }
  }
  return history;
}

}  // namespace propagator::train
