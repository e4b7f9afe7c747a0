#include "propagator/tasks/task.h"

#include "propagator/core/error.h"
#include "propagator/data/simulator.h"

namespace propagator::tasks {

void expect_simulated(const SimulatedFile& file, const std::string& section,
                      const std::string& example) {
  std::vector<std::string> names;
  for (const auto& [name, kind] : data::simulators()) names.push_back(name);
  if (!data::simulators().contains(file.simulator)) {
    throw ConfigError(
        section + ".simulator",
        fmt::format("there is no simulator {}", file.simulator),
        config::did_you_mean(file.simulator, names,
                             "`propagator list` shows simulators"));
  }
  if (file.path.empty()) {
    throw ConfigError(section + ".file",
                      "a simulation needs a file to be kept in",
                      "name one, as " + example);
  }
}

}  // namespace propagator::tasks
