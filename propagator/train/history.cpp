#include "propagator/train/history.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "propagator/core/files.h"

namespace propagator::train {

History read_history(const fs::path& metrics) {
  History history;
  if (!fs::exists(metrics)) return history;
  std::istringstream lines(read_file(metrics));
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object() || !line.contains("step")) continue;
    const bool validation = line.value("kind", "") == "validation";
    auto& curves = validation ? history.validation : history.train;
    curves.step.push_back(line.at("step"));
    curves.loss.push_back(line.value("loss", 0.0));
    curves.rate.push_back(line.value("lr", 0.0));
    const auto terms = line.value("terms", nlohmann::json::object());
    for (const auto& [name, value] : terms.items()) {
      auto& term = curves.terms[name];
      term.step.push_back(line.at("step"));
      term.value.push_back(value.get<double>());
    }
  }
  return history;
}

}  // namespace propagator::train
