#include "propagator/data/fields/field_simulator.h"

#include "propagator/core/error.h"
#include "propagator/core/progress.h"
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

void FieldSimulator::validate() const {
  problem_->validate();
  const auto bytes = static_cast<double>(options_.cases) *
                     bytes_of_one_case(problem_->layout());
  const auto memory = static_cast<double>(
      memory_bytes({.device = torch::kCPU, .precision = Precision::kFloat64}));
  if (bytes <= kShareOfMemory * memory) return;
  throw ConfigError(
      "field.cases",
      fmt::format("expected fields of at most {:.3g} GB, half of the memory, "
                  "got {:.3g} GB",
                  kShareOfMemory * memory / 1e9, bytes / 1e9),
      "compute them in several files: field.first says where each begins");
}

bool FieldSimulator::computes_in(Precision precision) const {
  return precision == Precision::kFloat64 || precision == Precision::kFloat32;
}

Simulated FieldSimulator::simulate(const Runtime& runtime) const {
  const torch::NoGradGuard no_gradients;
  FieldSet set{.layout = problem_->layout()};
  const int64_t frames = set.layout.times.numel(), cases = options_.cases;
  const int64_t batch =
      options_.batch > 0 ? options_.batch : problem_->cases_at_once();
  std::map<std::string, double> numbers;
  std::vector<torch::Tensor> parameters;
  Progress progress("frames", cases * frames);
  int64_t done = 0;
  for (int64_t n = 0; n < cases; n += batch) {
    physics::CaseRange range{.seed = options_.seed,
                             .first = options_.first + n,
                             .count = std::min(batch, cases - n),
                             .where = runtime.options()};
    range.frame_done = [&] { progress.update(done += range.count); };
    const auto found = problem_->solve(range);
    physics::expect_finite(found.values, set.layout.times[-1].item<double>(),
                           "");
    if (n == 0) {
      auto shape = found.values.sizes().vec();
      shape[0] = cases;
      set.values = torch::empty(shape, torch::kFloat32);
      if (options_.check != physics::FieldCheck::kNone) {
        numbers = problem_->assess(range, found, options_.check);
      }
    }
    set.values.narrow(0, n, range.count).copy_(found.values);
    parameters.push_back(found.parameters);
  }
  if (!set.layout.parameters.empty()) set.parameters = torch::cat(parameters);
  return {.tensors = field_tensors(set),
          .numbers = numbers,
          .note = field_note(set.layout)};
}

}  // namespace propagator::data
