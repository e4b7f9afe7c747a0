#include "propagator/data/fields/field_simulator.h"

#include "propagator/core/error.h"
#include "propagator/core/progress.h"
#include "propagator/core/stop.h"
#include "propagator/data/fields/field_file.h"

namespace propagator::data {
namespace {

// A part of the machine's memory that a set of fields may take.
constexpr double kShareOfMemory = 0.5;

double bytes_of_one_case(const FieldLayout& layout) {
  double count = static_cast<double>(layout.times.numel());
  for (const auto& axis : layout.axes) {
    count *= static_cast<double>(axis.at.numel());
  }
  return count * static_cast<double>(layout.channels.size()) * sizeof(float);
}

}  // namespace

void FieldCaseOptions::describe(config::Schema& s) {
  s.field("cases", cases,
          {.help = "cases that are computed",
           .min = 1,
           .max = 1e7,
           .memory = true});
  s.field("first", first,
          {.help = "number of the first case: those from here on are other "
                   "ones than those before it, as for a test",
           .min = 0,
           .max = 1e12});
  s.field("seed", seed,
          {.help = "seed of all draws; a case depends on it and on its number "
                   "alone",
           .min = 0});
  s.field("batch", batch,
          {.help = "cases that are computed together; 0: as many as suit a CPU",
           .min = 0,
           .max = 1e6,
           .role = config::Role::kPlace,
           .memory = true});
  s.field(
      "check", check,
      {.help = "what of the first case is computed again, to say in the "
               "note what the numbers are worth. none; refined: with finer "
               "steps; full: by a classical method too, which may take long",
       .role = config::Role::kReport});
}

FieldSimulator::FieldSimulator(std::unique_ptr<physics::FieldProblem> problem,
                               int64_t cases,
                               std::vector<Validation> validations)
    : problem_(std::move(problem)), rows_(std::move(validations)) {
  options_.cases = cases;
}

void FieldSimulator::describe(config::Schema& schema) {
  struct Both {
    FieldCaseOptions& cases;
    physics::FieldProblem& problem;
    void describe(config::Schema& s) {
      cases.describe(s);
      problem.describe(s);
    }
  } both{options_, *problem_};
  schema.section("field", both);
}

void FieldSimulator::validate() const { problem_->validate(); }

void FieldSimulator::expect_room(const FieldLayout& layout) const {
  const auto bytes =
      static_cast<double>(options_.cases) * bytes_of_one_case(layout);
  const auto memory = static_cast<double>(
      memory_bytes({.device = torch::kCPU, .precision = Precision::kFloat64}));
  if (bytes <= kShareOfMemory * memory) return;
  throw UsageError(
      fmt::format("[field] expected fields of at most {:.3g} GB, half of the "
                  "memory, got {:.3g} GB",
                  kShareOfMemory * memory / 1e9, bytes / 1e9),
      "a .h5 file may be larger; or set field.cases, and field.first to where "
      "each of several files begins");
}

bool FieldSimulator::computes_in(Precision precision) const {
  return precision == Precision::kFloat64 || precision == Precision::kFloat32;
}

void FieldSimulator::for_each_batch(const Runtime& runtime,
                                    const Take& take) const {
  const torch::NoGradGuard no_gradients;
  const auto times = problem_->layout().times;
  const int64_t cases = options_.cases;
  const int64_t batch =
      options_.batch > 0 ? options_.batch : problem_->cases_at_once();
  Numbers numbers;
  Progress progress("frames", cases * times.numel());
  int64_t done = 0;
  for (int64_t n = 0; n < cases; n += batch) {
    physics::CaseRange range{.seed = options_.seed,
                             .first = options_.first + n,
                             .count = std::min(batch, cases - n),
                             .where = runtime.options()};
    range.frame_done = [&] {
      expect_no_stop();
      progress.update(done += range.count);
    };
    const auto found = problem_->solve(range);
    physics::expect_finite(found.values, times[-1].item<double>(), "");
    if (n == 0 && options_.check != physics::FieldCheck::kNone) {
      numbers = problem_->assess(range, found, options_.check);
    }
    take(n, found, numbers);
  }
}

Simulated FieldSimulator::simulate(const Runtime& runtime) const {
  FieldSet set{.layout = problem_->layout()};
  expect_room(set.layout);
  Simulated simulated{.tensors = {},
                      .numbers = nlohmann::json::object(),
                      .note = field_note(set.layout)};
  std::vector<torch::Tensor> parameters;
  for_each_batch(runtime, [&](int64_t n, const physics::FieldCases& found,
                              const Numbers& numbers) {
    if (n == 0) {
      auto shape = found.values.sizes().vec();
      shape[0] = options_.cases;
      set.values = torch::empty(shape, torch::kFloat32);
      simulated.numbers = numbers;
    }
    set.values.narrow(0, n, found.values.size(0)).copy_(found.values);
    parameters.push_back(found.parameters);
  });
  if (!set.layout.parameters.empty()) set.parameters = torch::cat(parameters);
  simulated.tensors = field_tensors(set);
  return simulated;
}

nlohmann::json FieldSimulator::write(const std::filesystem::path& out,
                                     const Runtime& runtime,
                                     const Note& note) const {
  if (written_format(out) != TensorFormat::kHdf5) {
    return Simulator::write(out, runtime, note);
  }
  Simulated simulated{.tensors = {},
                      .numbers = nlohmann::json::object(),
                      .note = field_note(problem_->layout())};
  std::unique_ptr<FieldWriter> writer;
  for_each_batch(runtime, [&](int64_t n, const physics::FieldCases& found,
                              const Numbers& numbers) {
    if (n == 0) {
      simulated.numbers = numbers;
      writer = std::make_unique<FieldWriter>(out, problem_->layout(),
                                             options_.cases);
    }
    writer->write(n, found.values, found.parameters);
  });
  writer->close(note(simulated));
  return simulated.numbers;
}

std::optional<physics::FieldLayout> simulated_layout(
    const std::string& simulator, const std::vector<std::string>& settings) {
  const auto kinds = field_simulators();
  const auto found = kinds.find(simulator);
  if (found == kinds.end()) return std::nullopt;
  const auto made = found->second.options();
  config::Schema schema;
  made->describe(schema);
  config::Document document;
  for (const auto& setting : settings) {
    // The others say where and how it is computed.
    if (setting.starts_with("field.")) document.override_with(setting);
  }
  document.apply_to(schema);
  made->validate();
  return dynamic_cast<const FieldSimulator&>(*made).layout();
}

std::unique_ptr<FieldSimulator> simulator_of(const nlohmann::json& note) {
  const auto text = [&](const char* key) {
    const auto found = note.is_object() ? note.find(key) : note.end();
    return found != note.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
  };
  const auto kinds = field_simulators();
  const auto found = kinds.find(text("simulator"));
  if (found == kinds.end() || text("config").empty()) return nullptr;
  auto made = found->second.options();
  try {
    config::Schema schema;
    made->describe(schema);
    const auto all = config::Document::from_text(text("config"), "the note");
    config::Document own;
    for (const auto& field : schema.fields()) {
      // The others say where and how it was computed.
      if (const auto value = all.get(field.path)) {
        own.set(field.path, *value, "the note");
      }
    }
    own.apply_to(schema);
    made->validate();
  } catch (const UsageError&) {
    return nullptr;
  }
  return std::unique_ptr<FieldSimulator>(
      dynamic_cast<FieldSimulator*>(made.release()));
}

}  // namespace propagator::data
