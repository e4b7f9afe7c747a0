#include "propagator/tasks/solve/recipe.h"

#include <algorithm>

#include "propagator/train/optimizer.h"

namespace propagator::tasks {
namespace {

using Defaults = std::map<std::string, std::string>;

// Beginnings of keys; who sets one has another recipe in mind.
constexpr const char* kOwnChoices[] = {
    "model.",      "optimizer.",      "schedule.",           "lbfgs.",
    "broyden.",    "precision",       "derivatives",         "train.epochs",
    "train.batch", "train.max_steps", "levenberg_marquardt."};

Defaults network_defaults(int64_t variables) {
  Defaults all{{"optimizer.kind", "lbfgs"}, {"train.batch", "0"},
               {"train.epochs", "160"},     {"train.validate_every", "10"},
               {"train.log_every", "5"},    {"train.checkpoint_every", "50"}};
  if (variables < 3) return all;
  // As many points along each of them as along two would be too many.
  const bool three = variables == 3;
  all["points.per_axis"] = three ? "13" : "7";
  all["points.validation_per_axis"] = three ? "10" : "6";
  all["eval.per_axis"] = three ? "31" : "11";
  return all;
}

// Two or three points for each parameter of the network: a network that has
// fewer may be anything between them. Validation chooses the best step, and has
// so many points that some lie in a front of a hundredth of the domain. Two
// networks, each with half of the time, leave smaller residuals than one of
// most problems.
Defaults precise_defaults(int64_t variables) {
  auto all = network_defaults(variables);
  const Defaults precise{{"precision", "fp64"},
                         {"model.name", "pinn"},
                         {"model.width", "20"},
                         {"model.layers", "3"},
                         {"hard_constraints", "faces"},
                         {"optimizer.kind", "broyden"},
                         {"optimizer.adam_steps", "500"},
                         {"points.resample_every", "4"},
                         {"points.candidates", "16"},
                         {"points.validation", "sobol"},
                         {"train.epochs", "100000"},
                         {"train.budget", "180"},
                         {"train.validate_every", "5"},
                         {"train.log_every", "5"},
                         {"train.checkpoint_every", "50"},
                         {"slabs.most", "16"},
                         {"slabs.first", "2"}};
  for (const auto& [key, value] : precise) all[key] = value;
  const auto points = [&](const char* training, const char* validation) {
    all["points.per_axis"] = training;
    all["points.validation_per_axis"] = validation;
  };
  if (variables == 1) points("400", "1000");
  if (variables == 2) points("51", "101");
  if (variables == 3) points("15", "21");
  return all;
}

}  // namespace

Recipe recipe_of(const config::Document& document) {
  if (const auto named = document.get("recipe")) {
    return *named == config::name_of(Recipe::kPrecise) ? Recipe::kPrecise
                                                       : Recipe::kNetwork;
  }
  const bool chooses =
      std::ranges::any_of(document.entries(), [](const auto& entry) {
        return std::ranges::any_of(kOwnChoices, [&](const char* key) {
          return entry.first.starts_with(key);
        });
      });
  return chooses ? Recipe::kNetwork : Recipe::kPrecise;
}

Defaults defaults_of(Recipe recipe, const config::Document& document) {
  const auto variables =
      std::ssize(config::items_of(document.get("problem.domain").value_or("")));
  if (recipe == Recipe::kNetwork) return network_defaults(variables);
  auto all = precise_defaults(variables);
  if (document.get("model.name").value_or(all["model.name"]) !=
      all["model.name"]) {
    std::erase_if(
        all, [](const auto& item) { return item.first.starts_with("model."); });
  }
  if (document.get("slabs.most").value_or("") == "1") all.erase("slabs.first");
  // Its steps are single ones, where those of Broyden's method are of many
  // iterations.
  if (document.get("optimizer.kind").value_or("") ==
      config::name_of(train::OptimizerKind::kLevenbergMarquardt)) {
    all["points.resample_every"] = "1";
  }
  return all;
}

}  // namespace propagator::tasks
