#include "propagator/tasks/solve/solve_conditions.h"

#include <fmt/format.h>

#include <algorithm>

namespace propagator::tasks {
namespace {

// "at t=0: u", for a line of progress.
std::string short_name(const pde::Problem& problem,
                       const pde::Condition& condition) {
  const auto after = condition.text.substr(condition.text.find(':') + 1);
  auto left = after.substr(0, after.find('='));
  left.erase(left.find_last_not_of(' ') + 1);
  if (condition.is_on_edge()) {
    const auto shape = static_cast<size_t>(condition.shape);
    return fmt::format("on {}:{}", problem.region->shapes()[shape].name, left);
  }
  const auto variable = static_cast<size_t>(condition.variable);
  const auto& name = problem.symbols.variables[variable];
  if (condition.is_periodic()) {
    return fmt::format("periodic {}", name);
  }
  return fmt::format("{} {}={:g}:{}",
                     condition.variable == problem.time() ? "at" : "on", name,
                     condition.at, left);
}

// Short where that is the name of one condition alone.
std::vector<std::string> condition_names(const pde::Problem& problem) {
  std::vector<std::string> short_names, names;
  for (const auto& condition : problem.conditions) {
    short_names.push_back(short_name(problem, condition));
  }
  for (size_t n = 0; n < short_names.size(); ++n) {
    const bool alone = std::ranges::count(short_names, short_names[n]) == 1;
    names.push_back(alone ? short_names[n]
                          : problem.text(problem.conditions[n]));
  }
  return names;
}

}  // namespace

SolveConditions::SolveConditions(const pde::Problem& problem,
                                 HardConstraints hard, bool values_too)
    : problem_(&problem), names_(condition_names(problem)) {
  if (hard != HardConstraints::kNo) {
    if (values_too) {
      given_ = pde::HardConditions(problem,
                                   {.corners = hard == HardConstraints::kAll,
                                    .faces = hard == HardConstraints::kFaces});
    }
    periodic_ = pde::PeriodicEmbedding(
        problem, /*smooth=*/hard == HardConstraints::kFaces);
  }
  for (const auto& condition : problem.conditions) {
    if (!is_hard(condition)) learned_.push_back(&condition);
  }
}

bool SolveConditions::is_initial(const pde::Condition& condition) const {
  return condition.variable >= 0 && condition.variable == problem_->time();
}

bool SolveConditions::is_hard(const pde::Condition& condition) const {
  return given_.has(condition) || periodic_.has(condition);
}

const pde::Condition& SolveConditions::first_on_face(
    const pde::Condition& condition) const {
  for (const auto* other : learned_) {
    if (other->shares_face_with(condition)) return *other;
  }
  return condition;
}

const std::string& SolveConditions::name_of(
    const pde::Condition& condition) const {
  const auto place = &condition - problem_->conditions.data();
  return names_[static_cast<size_t>(place)];
}

std::shared_ptr<models::FieldNet> SolveConditions::build_into(
    std::shared_ptr<models::FieldNet> network) const {
  return given_.build_into(periodic_.embed(std::move(network)));
}

std::shared_ptr<pde::SlabChain> SolveConditions::build_into(
    pde::SlabTime time,
    std::vector<std::shared_ptr<models::FieldNet>> networks) const {
  for (auto& network : networks) network = periodic_.embed(std::move(network));
  return given_.build_into(std::move(time), std::move(networks));
}

}  // namespace propagator::tasks
