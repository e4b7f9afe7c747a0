#include "propagator/tasks/solve/recipe.h"

#include <torch/utils.h>

#include "propagator/run/experiment.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

constexpr const char* kRod =
    "task: solve\nproblem:\n"
    "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
    "  equations: u_t = 0.1*u_xx\n"
    "  conditions: ['at t=0: u = sin(pi*x)', 'on boundary: u = 0']\n";

config::Document rod(const std::string& more = "") {
  return config::Document::from_text(kRod + more, "test");
}

std::string value(const run::Experiment& experiment, const char* key) {
  return experiment.schema().find(key)->get();
}

TEST(TasksSolveRecipe, AProblemAloneIsSolvedToManyDigits) {
  const run::Experiment experiment(rod());
  for (const auto& [key, expected] :
       {std::pair("recipe", "precise"), std::pair("precision", "fp64"),
        std::pair("model.name", "pinn"), std::pair("model.width", "20"),
        std::pair("hard_constraints", "faces"),
        std::pair("optimizer.kind", "broyden"),
        std::pair("points.resample_every", "4"),
        std::pair("points.validation", "sobol"),
        std::pair("points.validation_per_axis", "101"),
        std::pair("slabs.first", "2"), std::pair("train.budget", "180")}) {
    EXPECT_EQ(value(experiment, key), expected) << key;
  }
}

TEST(TasksSolveRecipe, WhoChoosesAPartChoosesTheRest) {
  for (const char* chosen :
       {"model: {name: kan}\n", "optimizer: {kind: adam}\n",
        "precision: fp32\n", "train: {epochs: 5}\n", "lbfgs: {history: 5}\n"}) {
    EXPECT_EQ(recipe_of(rod(chosen)), Recipe::kNetwork) << chosen;
  }
  // Who wants one slab need not say so twice.
  EXPECT_EQ(value(run::Experiment(rod("slabs: {most: 1}\n")), "slabs.first"),
            "1");
  // Points, time, tests and names go with either.
  for (const char* chosen :
       {"train: {budget: 5}\n", "points: {per_axis: 9}\n", "name: rod\n",
        "train: {checkpoint_every: 9}\n", "eval: {per_axis: 20}\n"}) {
    EXPECT_EQ(recipe_of(rod(chosen)), Recipe::kPrecise) << chosen;
  }
  const run::Experiment named(
      rod("recipe: precise\nmodel: {width: 12}\ntrain: {epochs: 7}\n"));
  EXPECT_EQ(value(named, "optimizer.kind"), "broyden");
  EXPECT_EQ(value(named, "model.width"), "12");
  EXPECT_EQ(value(named, "train.epochs"), "7");
  // The sizes of the recipe's network are none of another.
  const run::Experiment other(
      rod("recipe: precise\nmodel: {name: spformer-small}\n"));
  EXPECT_EQ(value(other, "optimizer.kind"), "broyden");
  EXPECT_EQ(value(other, "model.width"), "32");
  // Single steps, each on points of its own.
  const std::string least =
      "recipe: precise\noptimizer: {kind: "
      "levenberg_marquardt}\n";
  EXPECT_EQ(value(run::Experiment(rod(least)), "points.resample_every"), "1");
  EXPECT_EQ(value(run::Experiment(rod(least + "points: {resample_every: 3}\n")),
                  "points.resample_every"),
            "3");
  const run::Experiment network(rod("recipe: network\n"));
  EXPECT_EQ(value(network, "points.validation"), "centres");
  EXPECT_EQ(value(network, "model.name"), "spformer-small");
  EXPECT_EQ(value(network, "precision"), "fp32");
  EXPECT_THROW(run::Experiment(rod("recipe: best\n")), ConfigError);
}

// A run keeps all keys as they were resolved: it opens whatever is usual later.
TEST(TasksSolveRecipe, WhatIsStoredReadsBackTheSame) {
  for (const char* chosen : {"", "recipe: network\n"}) {
    const run::Experiment experiment(rod(chosen));
    const run::Experiment again(
        config::Document::from_text(experiment.yaml(), "stored"));
    EXPECT_EQ(again.yaml(), experiment.yaml());
    EXPECT_EQ(again.hash(), experiment.hash());
  }
}

// Rebuilding fields from readings has its own defaults.
TEST(TasksSolveRecipe, ReconstructTakesItWhereItIsNamed) {
  auto document = rod();
  document.set("task", "reconstruct", "test");
  document.set("problem.exact", "u = sin(pi*x)*exp(-0.1*pi^2*t)", "test");
  const run::Experiment usual(document);
  EXPECT_EQ(value(usual, "recipe"), "network");
}

}  // namespace
}  // namespace propagator::tasks
