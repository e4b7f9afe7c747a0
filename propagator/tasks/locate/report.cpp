#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/stopwatch.h"
#include "propagator/data/point_table.h"
#include "propagator/tasks/locate/event_table.h"
#include "propagator/tasks/locate/locate.h"
#include "propagator/tasks/locate/location_errors.h"

// How answers are tested and used.

namespace propagator::tasks {
namespace {

using models::as_locator;
using models::Located;
using nlohmann::json;
using physics::EventFit;
using torch::Tensor;

constexpr double kTimed = 0.5;  // s, of locating events again and again

double seconds_of(const std::function<void()>& work) {
  const Stopwatch clock;
  work();
  return clock.seconds();
}

physics::Events first_of(const physics::Events& events, int64_t count) {
  return {events.vertices.slice(0, 0, count), events.offsets.slice(0, 0, count),
          events.times.slice(0, 0, count), events.hits.slice(0, 0, count),
          events.drawn};
}

}  // namespace

Located Locate::locate(models::Locator& model, const Sample& events) const {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime_);
  std::vector<Tensor> positions, factors;
  for (int64_t n = 0; n < events.size(); n += eval_options_.batch) {
    const auto part = [&](const Tensor& x) {
      return x.slice(0, n, n + eval_options_.batch);
    };
    const auto located =
        model.forward({part(events.times), part(events.hits), sensors_});
    positions.push_back(located.position.to(torch::kCPU, torch::kFloat64));
    if (located.factor.defined()) {
      factors.push_back(located.factor.to(torch::kCPU, torch::kFloat64));
    }
  }
  return {torch::cat(positions),
          factors.empty() ? Tensor() : torch::cat(factors)};
}

double Locate::rate_of(models::Locator& model, const Sample& events) const {
  double seconds = 0, located = 0;
  while (seconds < kTimed) {
    seconds += seconds_of([&] { locate(model, events); });
    located += static_cast<double>(events.size());
  }
  return located / seconds;
}

json Locate::evaluate(torch::nn::Module& module, data::Split split) {
  auto& model = as_locator(module);
  model.eval();
  const auto& events = sample(split);
  const auto truth = events.vertices.to(torch::kCPU, torch::kFloat64);
  const auto located = locate(model, events);
  if (!torch::isfinite(located.position).all().item<bool>()) {
    throw NumericalError("[eval] an answer is not finite");
  }
  json result{{"events", events.size()},
              {"model", distance_errors(located.position, truth).to_json()},
              {"bias", report::numbers((located.position - truth).mean(0))}};
  result["model"]["events_per_second"] = rate_of(model, events);
  const auto& centre = detector().volume().centre();
  const auto from_centre = distances(
      truth,
      torch::tensor(at::ArrayRef<double>(centre.data(), 3), torch::kFloat64)
          .unsqueeze(0));
  const double radius = from_centre.max().item<double>();
  const Classes classes{events.hits.sum(1).to(torch::kCPU, torch::kInt64),
                        (from_centre * (static_cast<double>(kRadii) / radius))
                            .clamp_max(kRadii - 0.5)
                            .to(torch::kInt64)};
  const auto error = distances(located.position, truth);
  result["radius"] = radius;
  add_medians("model", error, classes, result);
  result["residuals"] =
      densities(located.position - truth, 3 * value_at(error, 0.9));
  if (located.factor.defined()) {
    result["pulls"] = describe_pulls(pulls_of(located, truth));
  }
  const int64_t count = std::min(eval_options_.classical, events.size());
  if (split != data::Split::kTest || count == 0) return result;
  result["classical_events"] = count;
  result["model_there"] = distance_errors(located.position.slice(0, 0, count),
                                          truth.slice(0, 0, count))
                              .to_json();
  add_fits(classes, count, result);
  return result;
}

void Locate::add_medians(const std::string& key, const Tensor& error,
                         const Classes& classes, json& result) const {
  const auto first = [&](const Tensor& x) {
    return x.slice(0, 0, error.size(0));
  };
  result["by_hits"][key] =
      medians_by(first(classes.hits), error, detector().sensors() + 1);
  result["by_radius"][key] = medians_by(first(classes.shells), error, kRadii);
}

void Locate::add_fits(const Classes& classes, int64_t count,
                      json& result) const {
  const auto events = first_of(test_events_, count);
  const std::pair<FitName, decltype(&physics::least_squares)> fits[] = {
      {kFits[0], physics::least_squares},
      {kFits[1], physics::maximum_likelihood}};
  for (const auto& [name, fit] : fits) {
    log::info("{} of {} events", name.text, count);
    EventFit answer;
    const double seconds =
        seconds_of([&] { answer = fit(detector(), events, {}); });
    auto& row = result["classical"][name.key];
    row = distance_errors(answer.vertices, events.vertices).to_json();
    row["events_per_second"] = static_cast<double>(count) / seconds;
    row["ambiguous"] =
        answer.ambiguous.to(torch::kFloat64).mean().item<double>();
    add_medians(name.key, distances(answer.vertices, events.vertices), classes,
                result);
  }
}

train::Summary Locate::summary(const json& result) const {
  report::Table table({"", "resolution (m)", "median (m)", "90 % (m)",
                       "mean (m)", "events per second"});
  const auto add = [&](const std::string& name, const json& row) {
    const auto metres = [&](const char* key) {
      return fmt::format("{:.3g}", row.at(key).get<double>());
    };
    table.row(
        {name, metres("resolution"), metres("median"), metres("ninety"),
         metres("mean"),
         row.contains("events_per_second")
             ? fmt::format("{:.3g}", row.at("events_per_second").get<double>())
             : "-"});
  };
  add(fmt::format("{} ({})", model_name_, mode()), result.at("model"));
  train::Summary summary{table, {}};
  if (result.contains("classical")) {
    const auto count = result.at("classical_events").get<int64_t>();
    if (count < result.at("events").get<int64_t>()) {
      add(fmt::format("the same, first {} events", count),
          result.at("model_there"));
    }
    for (const auto& [key, text] : kFits) {
      add(text, result.at("classical").at(key));
    }
    summary.table = table;
  }
  summary.remarks.push_back(fmt::format(
      "{} events; resolution is the mean over batches of {} of the root mean "
      "square of a coordinate, the others are of the distance",
      result.at("events").get<int64_t>(), kLectureBatch));
  if (result.contains("pulls")) {
    const auto& pulls = result.at("pulls");
    const auto sigma = pulls.at("sigma").get<std::vector<double>>();
    summary.remarks.push_back(
        fmt::format("pulls have a spread of {:.2f}, {:.2f}, {:.2f} (1 is "
                    "right), and {:.1f} "
                    "% of the events lie in the 68.3 % region",
                    sigma[0], sigma[1], sigma[2],
                    100 * pulls.at("within_68").get<double>()));
  }
  return summary;
}

std::vector<train::Metric> Locate::metrics(const json& result) const {
  const auto& row = result.at("model");
  std::vector<train::Metric> metrics{{"median distance (m)", row.at("median")},
                                     {"resolution (m)", row.at("resolution")},
                                     {"90 % distance (m)", row.at("ninety")}};
  if (eval_options_.metric == LocateMetric::kResolution) {
    std::swap(metrics[0], metrics[1]);
  }
  return metrics;
}

std::string Locate::predict(torch::nn::Module& module, const std::string& input,
                            const std::string& output, const Runtime& runtime) {
  runtime_ = runtime;
  auto& model = as_locator(module);
  model.eval();
  data::expect_point_table(output);  // refuse a bad name before the work
  const auto table = read_events(input, detector());
  sensors_ = detector().positions().to(runtime.options());
  const auto located =
      locate(model, {torch::zeros({table.size(), 3}, runtime.options()),
                     table.times.to(runtime.options()),
                     table.hits.to(runtime.device)});
  if (!torch::isfinite(located.position).all().item<bool>()) {
    throw NumericalError("[predict] an answer is not finite",
                         "are the times like those of the training, in ns?");
  }
  std::vector<data::Column> columns{{"event", table.names.to(torch::kFloat64)}};
  const char* axes[] = {"x", "y", "z"};
  for (int64_t d = 0; d < 3; ++d) {
    columns.push_back({axes[d], located.position.select(1, d)});
  }
  for (int64_t d = 0; d < 3 && located.factor.defined(); ++d) {
    columns.push_back({fmt::format("sigma_{}", axes[d]),
                       located.factor.select(1, d).square().sum(1).sqrt()});
  }
  data::write_point_table(output, columns);
  return fmt::format("{} events located in {}", table.size(), output);
}

}  // namespace propagator::tasks
