#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "propagator/core/config.h"
#include "propagator/tasks/task.h"

namespace propagator::tasks {

struct TaskKind {
  std::string help;
  // `document` is looked at for names that decide which options there are.
  std::function<std::unique_ptr<Task>(const config::Document& document)> make;
  // Its models and what they are.
  std::map<std::string, std::string> models = {};
  // The files of `propagator predict`: what goes in, what comes out.
  std::string files = "";
  // Whether a configuration that names no task can only be of this one.
  std::function<bool(const config::Document&)> claims = {};
};

// Whether a document sets a key of that section.
bool has_section(const config::Document& document, const std::string& name);

// The tasks by name, as `task` in a configuration.
const std::map<std::string, TaskKind>& all_tasks();

// One more, for programs with tasks of their own. Before anything else is done
// with tasks, and by one thread.
void add_task(const std::string& name, TaskKind kind);

// The task that the document names; if none, the one that claims it, or else
// `forecast`.
std::string task_of(const config::Document& document);

// That task. ConfigError if it is none we know.
std::unique_ptr<Task> make_task(const config::Document& document);

}  // namespace propagator::tasks
