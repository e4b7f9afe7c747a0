#include <fmt/format.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/tasks/locate/locate.h"

// Where events come from: the simulator, or a file.

namespace propagator::tasks {

using torch::Tensor;

namespace {

// Where the events of a split begin in the ensemble of a seed; training has all
// before them.
constexpr int64_t kValidationBegin = int64_t{1} << 40;
constexpr int64_t kTestBegin = int64_t{1} << 41;

double mean_hits(const Tensor& hits) {
  return hits.sum(1).to(torch::kFloat64).mean().item<double>();
}

}  // namespace

Locate::Sample Locate::Sample::slice(int64_t from, int64_t to) const {
  const auto part = [&](const Tensor& x) {
    return x.defined() ? x.slice(0, from, to) : x;
  };
  return {part(vertices), part(times), part(hits), part(charges)};
}

Locate::Sample Locate::Sample::select(const Tensor& places) const {
  const auto part = [&](const Tensor& x) {
    return x.defined() ? x.index_select(0, places) : x;
  };
  return {part(vertices), part(times), part(hits), part(charges)};
}

EventTable Locate::read_file() const {
  auto layout = layout_of(detector(), by_place());
  layout.vertex = true;
  auto table = read_events(data_options_.file, layout);
  if (table.size() < data::kFewestCases) {
    throw DataError(fmt::format("{}: {} events are too few to train, validate "
                                "and test",
                                data_options_.file, table.size()),
                    fmt::format("at least {} are needed", data::kFewestCases));
  }
  return table;
}

std::vector<std::string> Locate::inspect() {
  const auto sensors =
      fmt::format("{} sensors, light at {:.4g} m/ns", detector().sensors(),
                  detector().light_speed());
  if (has_file()) {
    const auto table = read_file();
    return {
        sensors,
        fmt::format("{} events in {}; {:.3g} sensors fire in the mean; 70 % "
                    "of them train, 20 % validate, 10 % test",
                    table.size(), data_options_.file, mean_hits(table.hits))};
  }
  const auto events = physics::draw_events(detector(), 0, 0, 10000);
  return {sensors,
          fmt::format("{:.3g} % of flashes reach the trigger of {} hits; then "
                      "{:.3g} sensors fire in the mean",
                      100 * events.triggered(), detector_options_.trigger,
                      mean_hits(events.hits))};
}

physics::Events Locate::draw_split(data::Split split, int64_t round) const {
  switch (split) {
    case data::Split::kTrain:
      return physics::draw_events(detector(), seed_,
                                  round * data_options_.events,
                                  data_options_.events);
    case data::Split::kValidation:
      return physics::draw_events(detector(), seed_, kValidationBegin,
                                  data_options_.validation);
    default:
      return physics::draw_events(detector(), seed_, kTestBegin,
                                  eval_options_.events);
  }
}

Locate::Sample Locate::to_device(const physics::Events& events) const {
  const auto options = runtime_.options();
  return {events.vertices.to(options), events.times.to(options),
          events.hits.to(runtime_.device),
          events.charges.defined() ? events.charges.to(options) : Tensor()};
}

void Locate::prepare(int64_t seed, const Runtime& runtime) {
  seed_ = seed;
  runtime_ = runtime;
  round_ = 0;
  sensors_ = detector().positions().to(runtime.options());
  if (has_file()) return prepare_file();
  test_events_ = draw_split(data::Split::kTest, 0);
  samples_.clear();
  samples_[data::Split::kTest] = to_device(test_events_);
  for (const auto split : {data::Split::kTrain, data::Split::kValidation}) {
    samples_[split] = to_device(draw_split(split, 0));
  }
}

void Locate::prepare_file() {
  const auto table = read_file();
  // Fits are to look where events are.
  detector_ = detector().holding(table.vertices);
  const auto splits = data::make_split(table.size(), seed_);
  samples_.clear();
  for (const auto split :
       {data::Split::kTrain, data::Split::kValidation, data::Split::kTest}) {
    const auto events =
        table.select(torch::tensor(splits.of(split), torch::kInt64));
    samples_[split] = to_device(events);
    if (split == data::Split::kTest) test_events_ = events;
  }
}

const Locate::Sample& Locate::sample(data::Split split) const {
  const auto found = samples_.find(split);
  if (found != samples_.end()) return found->second;
  throw UsageError("[locate] expected the split train, validation or test",
                   has_file()
                       ? "`propagator predict` locates all events of a file"
                       : "events are simulated: there is no file of all of "
                         "them");
}

void Locate::begin_step(torch::nn::Module&, int64_t step) {
  if (data_options_.resample_every == 0 || has_file()) return;
  const int64_t round = step / data_options_.resample_every;
  if (round == round_) return;
  const auto fresh = to_device(draw_split(data::Split::kTrain, round));
  auto& events = samples_.at(data::Split::kTrain);
  // In place: a graph of the step reads them there.
  events.vertices.copy_(fresh.vertices);
  events.times.copy_(fresh.times);
  events.hits.copy_(fresh.hits);
  if (events.charges.defined()) events.charges.copy_(fresh.charges);
  round_ = round;
}

int64_t Locate::size(data::Split split) const { return sample(split).size(); }

std::string Locate::write_data(const std::string& path, int64_t seed,
                               const Runtime&, const std::string& note) const {
  if (has_file()) {
    throw UsageError("[data] data.file is read, not simulated again",
                     "leave out data.file");
  }
  data::expect_written_table(path);
  const auto events =
      physics::draw_events(detector(), seed, 0, data_options_.events);
  const int64_t hits = write_events(path, detector(), events, note);
  return fmt::format("{} events of {} hits", events.size(), hits);
}

}  // namespace propagator::tasks
