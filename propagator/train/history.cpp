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
  return fs::exists(metrics) ? history_of(read_file(metrics), metrics.string())
                             : History{};
}

History history_of(const std::string& text, const std::string& name) {
  History history;
  std::istringstream lines(text);
  int64_t number = 0;
  const auto fail = [&](const char* why) {
    throw DataError(fmt::format("{}: line {}: {}", name, number, why),
                    "without that line the others can be shown");
  };
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto parsed = parse_json(line);
    if (!parsed.is_object() || !parsed.contains("step")) continue;
    try {
      add(parsed, history);
    } catch (const nlohmann::json::exception& error) {
      fail(error.what());
    } catch (const DataError& error) {
      fail(error.what());
    }
  }
  return history;
}

}  // namespace propagator::train
