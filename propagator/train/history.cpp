#include "propagator/train/history.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "propagator/core/files.h"

namespace propagator::train {
namespace {

using nlohmann::json;

double number_of(const json& value) {
  return value.is_number() ? value.get<double>() : std::nan("");
}

void add_line(const json& line, History& history) {
  const auto part = [&](const char* key, const json& otherwise) {
    const auto found = line.find(key);
    return found == line.end() ? otherwise : *found;
  };
  const double step = number_of(part("step", nullptr));
  if (std::isnan(step)) return;
  const bool validation = part("kind", "") == "validation";
  auto& curves = validation ? history.validation : history.train;
  curves.step.push_back(step);
  curves.loss.push_back(number_of(part("loss", 0)));
  curves.rate.push_back(number_of(part("lr", 0)));
  const auto terms = part("terms", json::object());
  if (!terms.is_object()) return;
  for (const auto& [name, value] : terms.items()) {
    auto& term = curves.terms[name];
    term.step.push_back(step);
    term.value.push_back(number_of(value));
  }
}

}  // namespace

History read_history(const fs::path& metrics) {
  return fs::exists(metrics) ? history_of(read_file(metrics)) : History{};
}

History history_of(const std::string& text) {
  History history;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto parsed = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_object()) add_line(parsed, history);
  }
  return history;
}

}  // namespace propagator::train
