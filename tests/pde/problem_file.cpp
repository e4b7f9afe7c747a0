#include "pde/problem_file.h"

#include <filesystem>

#include "propagator/core/config.h"

namespace propagator::testing {

namespace fs = std::filesystem;

std::set<std::string> problem_names() {
  std::set<std::string> names;
  for (const auto& file : fs::directory_iterator(PROPAGATOR_PROBLEMS)) {
    names.insert(file.path().stem());
  }
  return names;
}

pde::Problem problem_named(const std::string& name) {
  const auto document = config::Document::from_file(
      fs::path(PROPAGATOR_PROBLEMS) / (name + ".yaml"));
  const auto list = [&](const std::string& key) {
    std::vector<std::string> items;
    const auto text = document.get("problem." + key);
    if (text) config::parse(*text, {}, items);
    return items;
  };
  return pde::Problem::parse(
      {.domain = list("domain"),
       .fields = list("fields"),
       .parameters = list("parameters"),
       .equations = list("equations"),
       .conditions = list("conditions"),
       .exact = list("exact"),
       .coefficients = list("coefficients"),
       .time = document.get("problem.time").value_or(""),
       .shapes = list("shapes"),
       .inside = document.get("problem.inside").value_or("")});
}

}  // namespace propagator::testing
