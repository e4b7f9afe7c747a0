#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "propagator/core/config.h"
#include "propagator/train/task.h"

namespace propagator::tasks {

struct TaskKind {
  std::string help;
  // `document` is looked at for names that decide which options there are.
  std::function<std::unique_ptr<train::Task>(const config::Document& document)>
      make;
};

// The tasks by name, as `task` in a configuration.
const std::map<std::string, TaskKind>& all_tasks();

// The task that the document names; if none, `solve` for one with a problem,
// or else `forecast`.
std::string task_of(const config::Document& document);

// That task. ConfigError if it is none we know.
std::unique_ptr<train::Task> make_task(const config::Document& document);

}  // namespace propagator::tasks
