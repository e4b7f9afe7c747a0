#include "propagator/physics/detector/light_events.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "propagator/core/error.h"
#include "propagator/core/random.h"
#include "propagator/physics/detector/photoelectrons.h"

namespace propagator::physics {
namespace {

constexpr int64_t kMostDraws = 100000;
constexpr double kMostLight = 1e12;  // λ that a charge is counted of
constexpr double kNever = std::numeric_limits<double>::infinity();

// Draws one event after another; the streams are rows of events.
class EventSource {
 public:
  EventSource(const Detector& detector, int64_t seed)
      : detector_(detector),
        options_(detector.options()),
        sensors_(detector.sensors()),
        position_(detector.positions().data_ptr<double>()),
        vertex_stream_(seed, "detector/vertex"),
        light_stream_(seed, "detector/light"),
        dark_stream_(seed, "detector/dark"),
        jitter_stream_(seed, "detector/jitter"),
        offset_stream_(seed, "detector/offset"),
        charge_stream_(seed, "detector/charge"),
        fires_(sensors_),
        dark_(sensors_),
        light_(sensors_) {}

  // Writes event n to its rows, `charges` only if there are any; returns how
  // many flashes it took, or 0 if there are too many.
  int64_t draw(int64_t n, double* vertex, double* offset, double* times,
               bool* hits, double* charges) {
    for (int64_t draw = 0; draw < kMostDraws; ++draw) {
      if (flash(n, draw, times, hits) < options_.trigger) continue;
      std::copy_n(vertex_.data(), 3, vertex);
      if (charges != nullptr) count(n, draw, charges);
      finish(n, draw, offset, times, hits);
      return draw + 1;
    }
    return 0;
  }

 private:
  // The travel times of sensors that see light, kNever of others; returns how
  // many are hit, by light or by themselves.
  int64_t flash(int64_t n, int64_t draw, double* times, bool* hits) {
    Point u;
    vertex_stream_.fill(n, 4 * draw, u);
    vertex_ = detector_.volume().at(u);
    light_stream_.fill(n, draw * sensors_, fires_);
    if (options_.dark > 0) dark_stream_.fill(n, draw * sensors_, dark_);
    int64_t count = 0;
    for (int64_t i = 0; i < sensors_; ++i) {
      const double* s = position_ + 3 * i;
      const double dx = vertex_[0] - s[0], dy = vertex_[1] - s[1];
      const double dz = vertex_[2] - s[2];
      const double distance = std::sqrt(dx * dx + dy * dy + dz * dz);
      light_[i] = detector_.mean_light(distance);
      const bool lit = fires_[i] < -std::expm1(-light_[i]);
      times[i] = lit ? detector_.travel_time(distance) : kNever;
      hits[i] = lit || dark_time(i) < kNever;
      count += hits[i];
    }
    return count;
  }

  // The first dark hit after the flash: exponential, cut at the window.
  double dark_time(int64_t i) const {
    if (options_.dark == 0) return kNever;
    const double time =
        -std::log1p(-dark_[i]) * (options_.window / options_.dark);
    return time < options_.window ? time : kNever;
  }

  // The photoelectrons of the flash, by the numbers that decided which sensors
  // it fires, and those of dark hits: the first, and what follows it until the
  // window ends.
  void count(int64_t n, int64_t draw, double* charges) const {
    for (int64_t i = 0; i < sensors_; ++i) {
      const int64_t at = 4 * (draw * sensors_ + i);  // in the stream
      const double light = std::min(light_[i], kMostLight);
      const double z = light > kMostSummed ? normal(charge_stream_, n, at) : 0;
      charges[i] = photoelectrons(light, fires_[i], z);
      const double first = dark_time(i);
      if (first == kNever) continue;
      const double rest = options_.dark * (1 - first / options_.window);
      charges[i] += 1 + photoelectrons(rest, charge_stream_.uniform(n, at + 2));
    }
  }

  void finish(int64_t n, int64_t draw, double* offset, double* times,
              const bool* hits) const {
    *offset = detector_.time_known()
                  ? 0
                  : options_.window * offset_stream_.uniform(n, draw);
    for (int64_t i = 0; i < sensors_; ++i) {
      if (options_.jitter > 0 && times[i] < kNever) {
        times[i] += options_.jitter *
                    normal(jitter_stream_, n, 2 * (draw * sensors_ + i));
      }
      times[i] = hits[i] ? std::min(times[i], dark_time(i)) + *offset : 0;
    }
  }

  static double normal(const RandomStream& stream, int64_t n, int64_t index) {
    std::array<double, 2> u;
    stream.fill(n, index, u);
    return std::sqrt(-2 * std::log1p(-u[0])) *
           std::cos(2 * std::numbers::pi * u[1]);
  }

  const Detector& detector_;
  const DetectorOptions& options_;
  int64_t sensors_;
  const double* position_;
  RandomStream vertex_stream_, light_stream_, dark_stream_, jitter_stream_,
      offset_stream_, charge_stream_;
  Point vertex_{};
  std::vector<double> fires_, dark_;  // uniform numbers of the present flash
  std::vector<double> light_;         // its λ at each sensor
};

}  // namespace

Events draw_events(const Detector& detector, int64_t seed, int64_t begin,
                   int64_t count) {
  if (begin < 0 || count < 0) {
    throw UsageError(fmt::format(
        "[draw_events] expected begin and count of at least 0, got {} and {}",
        begin, count));
  }
  const int64_t sensors = detector.sensors();
  Events events{torch::empty({count, 3}, torch::kFloat64),
                torch::empty({count}, torch::kFloat64),
                torch::empty({count, sensors}, torch::kFloat64),
                torch::empty({count, sensors}, torch::kBool)};
  if (detector.options().charge) {
    events.charges = torch::empty({count, sensors}, torch::kFloat64);
  }
  auto* vertices = events.vertices.data_ptr<double>();
  auto* offsets = events.offsets.data_ptr<double>();
  auto* times = events.times.data_ptr<double>();
  auto* hits = events.hits.data_ptr<bool>();
  auto* charges =
      detector.options().charge ? events.charges.data_ptr<double>() : nullptr;
  std::atomic<int64_t> drawn = 0;
  std::atomic<bool> failed = false;
  const int64_t grain = std::max<int64_t>(1, 4096 / sensors);
  at::parallel_for(0, count, grain, [&](int64_t from, int64_t to) {
    EventSource source(detector, seed);
    int64_t draws = 0;
    for (int64_t k = from; k < to && !failed; ++k) {
      const int64_t took =
          source.draw(begin + k, vertices + 3 * k, offsets + k,
                      times + sensors * k, hits + sensors * k,
                      charges == nullptr ? nullptr : charges + sensors * k);
      if (took == 0) failed = true;
      draws += took;
    }
    drawn += draws;
  });
  if (failed) {
    throw NumericalError(
        fmt::format(
            "[draw_events] expected events with {} hits, got none among "
            "{} in a row",
            detector.options().trigger, kMostDraws),
        "lower detector.trigger or raise detector.light_yield");
  }
  events.drawn = drawn;
  return events;
}

}  // namespace propagator::physics
