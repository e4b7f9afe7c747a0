#include "propagator/run/history_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "propagator/train/trainable.h"

namespace propagator::run {
namespace {

using report::LinePlot;
using report::Series;
using train::History;
using train::kValueOf;
using train::kWeightOf;

// Enough for any screen.
constexpr size_t kMostPoints = 2000;

Series curve(const std::string& name, const std::vector<double>& x,
             const std::vector<double>& y,
             Series::Style style = Series::Style::kLine) {
  Series series{name, {}, {}, style};
  const size_t stride = x.size() / kMostPoints + 1;
  for (size_t n = 0; n < x.size(); ++n) {
    if (n % stride != 0 && n + 1 != x.size()) continue;
    series.x.push_back(x[n]);
    series.y.push_back(y[n]);
  }
  return series;
}

// A likelihood may be negative, which no logarithm shows.
bool goes_below_zero(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double value) { return value < 0; });
}

// The terms that the loss is made of and, where they change, their weights.
void draw_terms(const History& history, report::Report& report) {
  const bool validated = !history.validation.step.empty();
  const auto& source = validated ? history.validation : history.train;
  LinePlot terms{.title = "Terms of the loss",
                 .x = {.label = "step"},
                 .y = {.label = "term, without its weight", .log = true}};
  LinePlot signed_terms{.title = "Terms of the loss that may be negative",
                        .x = {.label = "step"},
                        .y = {.label = "term, without its weight"}};
  for (const auto& [name, term] : source.terms) {
    if (name.starts_with(kWeightOf) || name.starts_with(kValueOf)) continue;
    auto& plot = goes_below_zero(term.value) ? signed_terms : terms;
    plot.series.push_back(curve(name, term.step, term.value));
  }
  if (!signed_terms.series.empty()) {
    report.figure("loss-terms-signed", signed_terms,
                  "Terms that a logarithmic scale cannot show, such as the "
                  "negative log likelihood of a density.");
  }
  if (!terms.series.empty()) {
    report.figure(
        "loss-terms", terms,
        fmt::format("The terms that the loss is made of, on the {}.",
                    validated ? "validation cases" : "training batches"));
  }
  const auto draw_those_of = [&](std::string_view prefix, const char* name,
                                 LinePlot plot, const char* caption) {
    for (const auto& [term, over_time] : history.train.terms) {
      if (!term.starts_with(prefix)) continue;
      plot.series.push_back(
          curve(term.substr(prefix.size()), over_time.step, over_time.value));
    }
    if (!plot.series.empty()) report.figure(name, plot, caption);
  };
  draw_those_of(kValueOf, "unknowns",
                {.title = "Parameters that were sought",
                 .x = {.label = "step"},
                 .y = {.label = "value"}},
                "How the unknown parameters of the equations were found.");
  draw_those_of(kWeightOf, "loss-weights",
                {.title = "Weights of the terms",
                 .x = {.label = "step"},
                 .y = {.label = "weight", .log = true}},
                "How the terms were weighed against one another.");
}

}  // namespace

std::vector<report::Event> events_of(const History& history) {
  std::vector<report::Event> events;
  const auto& train = history.train;
  const auto mark = [&](size_t n) {
    events.push_back(
        {train.step[n], train.rate[n] > 0
                            ? fmt::format("rate {:g}", train.rate[n])
                            : "L-BFGS"});
  };
  std::vector<size_t> jumps;
  for (size_t n = 1; n < train.rate.size(); ++n) {
    if (train.rate[n] != train.rate[n - 1]) jumps.push_back(n);
  }
  if (train.rate.empty() || 2 * jumps.size() < train.rate.size()) {
    for (const size_t n : jumps) mark(n);
  } else {
    const auto peak = std::ranges::max_element(train.rate);
    mark(static_cast<size_t>(peak - train.rate.begin()));
  }
  const auto& loss = history.validation.loss;
  if (!loss.empty()) {
    const auto best = std::ranges::min_element(loss) - loss.begin();
    events.push_back({history.validation.step[best], "best validation"});
  }
  std::ranges::sort(events, {}, &report::Event::x);
  return events;
}

void draw_history(const History& history, report::Report& report) {
  const auto& [train, validation] = history;
  LinePlot loss{.title = "Loss during training",
                .x = {.label = "step"},
                .y = {.label = "loss",
                      .log = !goes_below_zero(train.loss) &&
                             !goes_below_zero(validation.loss)},
                .series = {curve("training", train.step, train.loss)},
                .events = events_of(history)};
  if (!validation.step.empty()) {
    loss.series.push_back(
        curve("validation", validation.step, validation.loss));
  }
  // L-BFGS has none.
  const bool has_rate =
      std::ranges::any_of(train.rate, [](double rate) { return rate != 0; });
  report.figure(
      "loss", loss,
      fmt::format("The loss of each logged step and of the validation cases; "
                  "marked {} the step whose weights are kept.",
                  has_rate ? "are changes of the learning rate and" : "is"));
  draw_terms(history, report);
  if (!has_rate) return;
  report.figure("learning-rate",
                LinePlot{.title = "Learning rate",
                         .x = {.label = "step"},
                         .y = {.label = "learning rate"},
                         .series = {curve("", train.step, train.rate)}},
                "The learning rate of each step.");
}

}  // namespace propagator::run
