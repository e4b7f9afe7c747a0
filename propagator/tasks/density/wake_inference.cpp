#include "propagator/tasks/density/wake_inference.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <numbers>
#include <sstream>

#include "propagator/core/error.h"
#include "propagator/data/wake_cycles_simulator.h"
#include "propagator/physics/wake/wake_harmonics.h"
#include "propagator/tasks/density/inference_maths.h"

namespace propagator::tasks {

using torch::Tensor;

namespace {

constexpr double kTurn = 2 * std::numbers::pi;
// The grid: pairs of cells of Re and phases in the narrowest posterior's
// standard deviation, and how many at least and at most.
constexpr double kPairsOfReynolds = 2, kPhases = 1;
constexpr int64_t kLeastPairs = 60, kMostPairs = 1000;
constexpr int64_t kLeastPhases = 32, kMostPhases = 1024;
constexpr int64_t kValuesAtOnce = 4'000'000;
constexpr int64_t kMaxReadings = 10'000;
// How far estimates keep off the edges of the prior.
constexpr double kWakeOffEdge = 0.01;

// "3.5 -0.5"
std::pair<double, double> place_of(const std::string& text) {
  std::istringstream words(text);
  double x = 0, y = 0;
  std::string more;
  if (words >> x >> y && !(words >> more) && std::isfinite(x) &&
      std::isfinite(y)) {
    return {x, y};
  }
  throw ConfigError(
      "inference.wake.sensors",
      fmt::format("expected two numbers, x and y, got '{}'", text),
      "each is a place in diameters, such as 3.5 -0.5");
}

// So many parts of a range in which a flow changes by `change` in all.
int64_t parts_of(double change, double noise, double each, int64_t least,
                 int64_t most) {
  const double parts = std::ceil(each * change / noise);
  return std::clamp(static_cast<int64_t>(std::min(parts, 1e9)), least, most);
}

}  // namespace

void WakeInferenceOptions::describe(config::Schema& s) {
  s.field("file", file,
          {.help = "table of periodic flows, .h5 or .npz, beside the "
                   "configuration; the simulator wake-cycles computes it where "
                   "it is not there yet",
           .file = true,
           .later = true});
  s.field("simulation", simulation,
          {.help = "keys of that simulator, as wake.reynolds_max=150",
           .later = true});
  s.field("sensors", sensors,
          {.help = "places x y of the sensors, in diameters behind and above "
                   "the cylinder",
           .later = true});
  s.field("times", times,
          {.help = "times at which each sensor is read",
           .min = 1,
           .max = 1000,
           .later = true});
  const auto number = [&](const char* name, double& value, const char* unit,
                          double least, double most, const char* help) {
    s.field(
        name, value,
        {.help = help, .unit = unit, .min = least, .max = most, .later = true});
  };
  number("interval", interval, "D/U", 1e-3, 1e3, "time between readings");
  number("noise", noise, "U", 1e-4, 1e3,
         "standard deviation of the noise of each velocity");
  number("reynolds_min", reynolds_min, "", 50, 300,
         "lowest Reynolds number of the prior");
  number("reynolds_max", reynolds_max, "", 50, 300,
         "highest Reynolds number of the prior");
}

WakeInference::WakeInference(const WakeInferenceOptions& options)
    : options_(options),
      prior_({{options.reynolds_min, options.reynolds_max,
               "inference.wake.reynolds_max"}}) {
  for (const auto& text : options.sensors) {
    const auto [x, y] = place_of(text);
    x_.push_back(x);
    y_.push_back(y);
  }
  if (x_.empty()) {
    throw ConfigError("inference.wake.sensors", "expected one or more",
                      "each is a place in diameters, such as 3.5 -0.5");
  }
  if (readings() > kMaxReadings) {
    throw ConfigError("inference.wake.times",
                      fmt::format("expected at most {} readings in all, got {}",
                                  kMaxReadings, readings()));
  }
  if (options.file.empty()) {
    throw ConfigError("inference.wake.file",
                      "the table of flows needs a file to be kept in",
                      "name one, as data/wake-cycles.h5");
  }
}

int64_t WakeInference::readings() const {
  return 2 * options_.times * std::ssize(x_);
}

std::vector<std::string> WakeInference::observed() const {
  std::vector<std::string> names;
  for (size_t s = 1; s <= x_.size(); ++s) {
    for (const char* component : {"u", "v"}) {
      for (int64_t t = 1; t <= options_.times; ++t) {
        names.push_back(fmt::format("{}_{}_{}", component, s, t));
      }
    }
  }
  return names;
}

std::string WakeInference::describe() const {
  return fmt::format(
      "the Reynolds number of a cylinder's wake given velocities at {} sensors "
      "and {} times with noise of {}, at an unknown phase of the shedding",
      x_.size(), options_.times, options_.noise);
}

const WakeInference::Table& WakeInference::table() const {
  std::call_once(once_, [this] { table_ = read_table(); });
  return table_;
}

void WakeInference::expect_in_range(const physics::WakeCycles& cycles) const {
  const double low = cycles.reynolds[0].item<double>();
  const double high = cycles.reynolds[-1].item<double>();
  constexpr double kSlack = 1 + 1e-9;
  if (options_.reynolds_min * kSlack < low ||
      options_.reynolds_max > high * kSlack) {
    throw DataError(
        fmt::format("{}: expected Reynolds numbers from {} to {}, got {:.4g} "
                    "to {:.4g}",
                    options_.file, options_.reynolds_min, options_.reynolds_max,
                    low, high),
        "narrow the prior, or compute another table: inference.wake.simulation "
        "has its keys");
  }
  for (size_t n = 0; n < x_.size(); ++n) {
    const auto within = [](const Tensor& axis, double at) {
      return at >= axis[0].item<double>() && at <= axis[-1].item<double>();
    };
    if (within(cycles.x, x_[n]) && within(cycles.y, y_[n])) continue;
    throw DataError(
        fmt::format("{}: the sensor at {} {} is outside its window",
                    options_.file, x_[n], y_[n]),
        "inference.wake.simulation has the window's keys, as wake.x_max=8");
  }
}

WakeInference::Table WakeInference::read_table() const {
  if (!std::filesystem::exists(options_.file)) {
    throw FileError(
        fmt::format("{}: there is no table of periodic flows", options_.file),
        "`propagator data generate wake-cycles --out " + options_.file +
            "` computes it");
  }
  Table table;
  table.cycles = data::read_wake_cycles(options_.file);
  const auto& cycles = table.cycles;
  expect_in_range(cycles);
  table.sensors = cycles.at_sensors(x_, y_);
  // As fine as the flows that change most ask for.
  const auto coarse = torch::linspace(
      options_.reynolds_min, options_.reynolds_max, 65, torch::kFloat64);
  const auto harmonics = coefficients(table, coarse);
  const auto phases_at = [&](int64_t count) {
    return physics::harmonic_columns(torch::arange(count, torch::kFloat64) *
                                         (kTurn / static_cast<double>(count)),
                                     cycles.harmonics());
  };
  const auto flows = torch::matmul(phases_at(64), harmonics);  // (65, 64, n)
  const auto largest = [](const Tensor& step) {
    return step.norm(2, {2}).max().item<double>();
  };
  const int64_t phases =
      parts_of(64 * largest(flows - flows.roll(1, 1)), options_.noise, kPhases,
               kLeastPhases, kMostPhases);
  const int64_t pairs =
      parts_of(64 * largest(flows.slice(0, 1) - flows.slice(0, 0, -1)),
               options_.noise, kPairsOfReynolds, kLeastPairs, kMostPairs);
  table.columns = phases_at(phases);
  table.reynolds = torch::linspace(options_.reynolds_min, options_.reynolds_max,
                                   2 * pairs + 1, torch::kFloat64);
  table.flows =
      torch::matmul(table.columns, coefficients(table, table.reynolds))
          .flatten(0, 1)
          .contiguous();
  table.squares = table.flows.square().sum(1) / 2;
  return table;
}

Tensor WakeInference::coefficients(const Table& table,
                                   const Tensor& reynolds) const {
  const auto& cycles = table.cycles;
  const auto here = cycles.interpolate(table.sensors, reynolds);
  const auto strouhal = cycles.interpolate(cycles.strouhal, reynolds);
  std::vector<Tensor> at_times;
  for (int64_t t = 0; t < options_.times; ++t) {
    const double time = options_.interval * static_cast<double>(t);
    at_times.push_back(physics::turn_harmonics(here, kTurn * time * strouhal));
  }
  // (N, 2H + 1, 2, S, T) → sensors, then u and v, then times
  return torch::stack(at_times, 4).transpose(2, 3).flatten(2);
}

Tensor WakeInference::readings_of(const Tensor& reynolds,
                                  const Tensor& phase) const {
  const auto& known = table();
  const auto columns =
      physics::harmonic_columns(phase, known.cycles.harmonics());
  return torch::matmul(columns.unsqueeze(1), coefficients(known, reynolds))
      .squeeze(1);
}

Pairs WakeInference::draw(int64_t seed, int64_t begin, int64_t count) const {
  const RandomStream stream(seed, "data/wake");
  std::vector<double> reynolds, phase;
  for (int64_t n = begin; n < begin + count; ++n) {
    reynolds.push_back(prior_.draw(stream, n)[0]);
    phase.push_back(kTurn * stream.uniform(n, 1));
  }
  const auto unknown = torch::tensor(reynolds, torch::kFloat64);
  // Two numbers of each row are Re and phase.
  const auto noise = normal_rows(stream, begin, count, 2, readings());
  return {unknown.unsqueeze(1),
          readings_of(unknown, torch::tensor(phase, torch::kFloat64)) +
              options_.noise * noise};
}

Tensor WakeInference::heights(const Table& table, const Tensor& rows) const {
  const double precision = 1 / (options_.noise * options_.noise);
  return torch::addmm(table.squares, rows, table.flows.t(),
                      /*beta=*/-precision, /*alpha=*/precision)
      .view({rows.size(0), table.reynolds.size(0), table.columns.size(0)});
}

Tensor WakeInference::estimate(const Tensor& observed) const {
  const auto& known = table();
  const int64_t last = known.reynolds.size(0) - 1;
  const int64_t at_once =
      std::max<int64_t>(1, kValuesAtOnce / known.flows.size(0));
  std::vector<Tensor> parts;
  for (int64_t n = 0; n < observed.size(0); n += at_once) {
    const auto height =
        heights(known, observed.slice(0, n, n + at_once)).amax(2);
    // The ends have no neighbour on one side.
    const auto best = height.argmax(1, true).clamp(1, last - 1);
    const auto at = [&](int64_t by) {
      return height.gather(1, best + by).squeeze(1);
    };
    parts.push_back(known.reynolds.index_select(0, best.squeeze(1)) +
                    summit(at(-1), at(0), at(1)) *
                        (known.reynolds[1] - known.reynolds[0]));
  }
  return prior_.confine(torch::cat(parts).unsqueeze(1), kWakeOffEdge);
}

Tensor WakeInference::log_joint(const Tensor& unknown,
                                const Tensor& observed) const {
  const auto& known = table();
  const double variance = options_.noise * options_.noise;
  const double units =
      static_cast<double>(readings()) * 0.5 * std::log(kTurn * variance) +
      std::log(static_cast<double>(known.columns.size(0)));
  const auto inside = prior_.inside(unknown);
  const auto reynolds = prior_.confine(unknown, 0).select(1, 0);
  const int64_t at_once = std::max<int64_t>(
      1, kValuesAtOnce / (known.columns.size(0) * readings()));
  std::vector<Tensor> parts;
  for (int64_t n = 0; n < unknown.size(0); n += at_once) {
    const auto flows = torch::matmul(
        known.columns, coefficients(known, reynolds.slice(0, n, n + at_once)));
    const auto off = observed.slice(0, n, n + at_once).unsqueeze(1) - flows;
    parts.push_back(torch::logsumexp(-off.square().sum(2) / (2 * variance), 1));
  }
  return (torch::cat(parts) + prior_.log_density() - units)
      .masked_fill(~inside, -std::numeric_limits<double>::infinity());
}

std::optional<Tensor> WakeInference::log_evidence(
    const Tensor& observed) const {
  const auto& known = table();
  const double variance = options_.noise * options_.noise;
  const double units =
      static_cast<double>(readings()) * 0.5 * std::log(kTurn * variance) +
      std::log(static_cast<double>(known.columns.size(0)));
  const auto log_weights = torch::log(simpson_weights(known.reynolds));
  const int64_t at_once =
      std::max<int64_t>(1, kValuesAtOnce / known.flows.size(0));
  std::vector<Tensor> parts;
  for (int64_t n = 0; n < observed.size(0); n += at_once) {
    const auto rows = observed.slice(0, n, n + at_once);
    const auto over_phases = torch::logsumexp(heights(known, rows), 2);
    parts.push_back(torch::logsumexp(over_phases + log_weights, 1) -
                    rows.square().sum(1) / (2 * variance));
  }
  return torch::cat(parts) + prior_.log_density() - units;
}

}  // namespace propagator::tasks
