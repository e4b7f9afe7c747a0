#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/stopwatch.h"
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

constexpr const char* kMedian = "median distance (m)";
constexpr const char* kResolution = "resolution (m)";
constexpr const char* kNinety = "90 % distance (m)";

constexpr double kTimed = 0.5;  // s, of locating events again and again

double seconds_of(const std::function<void()>& work) {
  const Stopwatch clock;
  work();
  return clock.seconds();
}

physics::Events first_of(const physics::Events& events, int64_t count) {
  return {
      events.vertices.slice(0, 0, count),
      events.offsets.slice(0, 0, count),
      events.times.slice(0, 0, count),
      events.hits.slice(0, 0, count),
      events.drawn,
      events.charges.defined() ? events.charges.slice(0, 0, count) : Tensor()};
}

}  // namespace

Located locate_all(models::Locator& model, const models::Hits& hits,
                   int64_t batch, const Runtime& runtime) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime);
  std::vector<Tensor> positions, factors;
  for (int64_t n = 0; n < hits.times.size(0); n += batch) {
    const auto part = [&](const Tensor& x) {
      return x.defined() ? x.slice(0, n, n + batch) : x;
    };
    const auto located = model.forward(
        {part(hits.times), part(hits.hit), hits.positions, part(hits.charges)});
    positions.push_back(located.position.to(torch::kCPU, torch::kFloat64));
    if (located.factor.defined()) {
      factors.push_back(located.factor.to(torch::kCPU, torch::kFloat64));
    }
  }
  return {torch::cat(positions),
          factors.empty() ? Tensor() : torch::cat(factors)};
}

Located Locate::locate(models::Locator& model, const Sample& events) const {
  return locate_all(model, events.seen_by(sensors_), eval_options_.batch,
                    runtime_);
}

double Locate::rate_of(models::Locator& model, const Sample& events) const {
  double seconds = 0, located = 0;
  while (seconds < kTimed) {
    seconds += seconds_of([&] { locate(model, events); });
    located += static_cast<double>(events.size());
  }
  return located / seconds;
}

Evaluation Locate::evaluate(torch::nn::Module& module, data::Split split) {
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
  if (split != data::Split::kTest || count == 0) {
    return present(std::move(result));
  }
  result["classical_events"] = count;
  result["model_there"] = distance_errors(located.position.slice(0, 0, count),
                                          truth.slice(0, 0, count))
                              .to_json();
  add_fits(classes, count, result);
  return present(std::move(result));
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
  if (detector_options_.charge) {
    result["likelihood_uses_charge"] = physics::uses_charges(detector());
  }
  const std::pair<FitName, decltype(&physics::least_squares)> fits[] = {
      {kFits[0], physics::least_squares},
      {kFits[1], physics::maximum_likelihood}};
  for (const auto& [name, fit] : fits) {
    log::info("{} of {} events", name.text, count);
    EventFit answer;
    const double seconds =
        seconds_of([&, fit = fit] { answer = fit(detector(), events, {}); });
    auto& row = result["classical"][name.key];
    row = distance_errors(answer.vertices, events.vertices).to_json();
    row["events_per_second"] = static_cast<double>(count) / seconds;
    row["ambiguous"] =
        answer.ambiguous.to(torch::kFloat64).mean().item<double>();
    add_medians(name.key, distances(answer.vertices, events.vertices), classes,
                result);
  }
}

namespace {

void add_row(const std::string& name, const json& row, report::Table& table) {
  const auto metres = [&](const char* key) {
    return fmt::format("{:.3g}", row.at(key).get<double>());
  };
  table.row(
      {name, metres("resolution"), metres("median"), metres("ninety"),
       metres("mean"),
       row.contains("events_per_second")
           ? fmt::format("{:.3g}", row.at("events_per_second").get<double>())
           : "-"});
}

report::Table table_of(const std::string& ours, const json& numbers) {
  report::Table table({"", "resolution (m)", "median (m)", "90 % (m)",
                       "mean (m)", "events per second"});
  add_row(ours, numbers.at("model"), table);
  if (!numbers.contains("classical")) return table;
  const auto count = numbers.at("classical_events").get<int64_t>();
  if (count < numbers.at("events").get<int64_t>()) {
    add_row(fmt::format("the same, first {} events", count),
            numbers.at("model_there"), table);
  }
  for (const auto& [key, text] : kFits) {
    add_row(text, numbers.at("classical").at(key), table);
  }
  return table;
}

std::vector<std::string> remarks_of(const json& numbers) {
  std::vector<std::string> remarks{fmt::format(
      "{} events; resolution is the mean over batches of {} of the root mean "
      "square of a coordinate, the others are of the distance",
      numbers.at("events").get<int64_t>(), kLectureBatch)};
  if (const auto found = numbers.find("likelihood_uses_charge");
      found != numbers.end()) {
    remarks.push_back(fmt::format(
        "the network reads charges; least squares reads hit times alone, "
        "maximum likelihood times, which sensors fired{}",
        found->get<bool>() ? " and charges"
                           : ", and no charges, since there are dark hits"));
  }
  if (!numbers.contains("pulls")) return remarks;
  const auto& pulls = numbers.at("pulls");
  const auto sigma = pulls.at("sigma").get<std::vector<double>>();
  remarks.push_back(fmt::format(
      "pulls have a spread of {:.2f}, {:.2f}, {:.2f} (1 is "
      "right), and {:.1f} % of the events lie in the 68.3 % region",
      sigma[0], sigma[1], sigma[2], 100 * pulls.at("within_68").get<double>()));
  return remarks;
}

}  // namespace

std::vector<std::string> Locate::metric_names() const {
  return {kMedian, kResolution, kNinety};
}

Evaluation Locate::present(json numbers) const {
  const auto& row = numbers.at("model");
  Evaluation evaluation{
      .table = table_of(fmt::format("{} ({})", model_name_, mode()), numbers),
      .remarks = remarks_of(numbers),
      .metrics = {{kMedian, row.at("median")},
                  {kResolution, row.at("resolution")},
                  {kNinety, row.at("ninety")}},
      .curves = errors_by_hits(numbers)};
  if (eval_options_.metric == LocateMetric::kResolution) {
    std::swap(evaluation.metrics[0], evaluation.metrics[1]);
  }
  evaluation.headline =
      fmt::format("Half of all events are located within {:.3g} m.",
                  row.at("median").get<double>());
  evaluation.numbers = std::move(numbers);
  return evaluation;
}

}  // namespace propagator::tasks
