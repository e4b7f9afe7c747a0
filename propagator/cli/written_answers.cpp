// Needs no library but the standard one, as start.cpp.
#include "propagator/cli/written_answers.h"

#include "propagator/run/known_files.h"

namespace propagator::cli {
namespace {

constexpr char kBetweenWords = '\t';

}  // namespace

std::string answer_heading(const std::vector<std::string>& words) {
  std::string heading(1, kAnswerBegins);
  for (const auto& word : words) heading += word + kBetweenWords;
  return heading + '\n';
}

std::string listed_files() {
  std::string all;
  for (const auto& files : {run::known_configs(), run::known_problems()}) {
    for (const auto& [name, path] : files) {
      all += name + kBetweenWords + run::first_comment(path) + kBetweenWords +
             run::group_of(path) + '\n';
    }
  }
  return all;
}

}  // namespace propagator::cli
