#pragma once

#include <map>
#include <string>

#include "propagator/core/config.h"

namespace propagator::tasks {

// How a problem is solved where its configuration says nothing else: the
// defaults of its other keys.
//   network  a transformer of a size for a CPU, in float32, by L-BFGS
//   precise  a small tanh network in float64 whose form meets the conditions
//            that it can, by Broyden's method, within a budget of time
enum class Recipe { kNetwork, kPrecise };

// The one that a document names. If it names none, kPrecise, but where it
// chooses a part of the other for itself: a network, an optimiser, a
// precision, a number of steps.
Recipe recipe_of(const config::Document& document);
// Keys and their values, for the variables of a document's problem and the
// network that it names, if it names one: the sizes of another are no defaults.
std::map<std::string, std::string> defaults_of(
    Recipe recipe, const config::Document& document);

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::Recipe> {
  using enum tasks::Recipe;
  static constexpr std::pair<tasks::Recipe, const char*> all[] = {
      {kNetwork, "network"}, {kPrecise, "precise"}};
};

}  // namespace propagator::config
