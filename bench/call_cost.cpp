// What a call through the C interface costs: one case, one thread, by turns in
// one process
//   direct   the network called through libtorch, its answer a tensor of its
//   own; library  the same run through the C++ library, which checks what goes
//   in
//            and comes out;
//   c        the same through the C interface, into an array of the caller's.
//
//   propagator_call_cost RUN [CALLS] [--out FILE]

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "cost.h"
#include "propagator/capi/propagator.h"
#include "propagator/core/error.h"
#include "propagator/models/forecaster.h"

namespace {

using namespace propagator;

void expect_ok(pg_status status) {
  if (status != PG_OK) throw std::runtime_error(pg_last_error());
}

pg_tensor array(const std::string& name, const torch::Tensor& values) {
  return {name.c_str(),
          values.data_ptr(),
          values.sizes().data(),
          values.strides().data(),
          static_cast<int32_t>(values.dim()),
          PG_FLOAT32,
          PG_CPU,
          0};
}

std::vector<pg_tensor> arrays(const tasks::NamedTensors& tensors) {
  std::vector<pg_tensor> all;
  for (const auto& [name, values] : tensors) all.push_back(array(name, values));
  return all;
}

models::Forecaster& forecaster_of(const run::Run& run) {
  auto* forecaster = dynamic_cast<models::Forecaster*>(&run.model());
  if (forecaster != nullptr) return *forecaster;
  throw UsageError("[call_cost] expected a run that forecasts plates",
                   "propagator train forecast/tiny makes one");
}

// A run as C has it, open.
class Handle {
 public:
  explicit Handle(const std::string& folder) {
    pg_options options = PG_OPTIONS;
    options.device = "cpu";
    options.precision = "fp32";
    options.threads = 1;
    expect_ok(pg_open(folder.c_str(), &options, &run_));
  }
  ~Handle() { pg_close(run_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  void apply(const std::vector<pg_tensor>& inputs,
             const std::vector<pg_tensor>& outputs) const {
    expect_ok(pg_apply(run_, inputs.data(), inputs.size(), outputs.data(),
                       outputs.size()));
  }

 private:
  pg_run* run_ = nullptr;
};

// Seconds of each call, in the order of the calls.
struct Times {
  std::vector<double> direct, library, c;
};

Times time(const std::string& folder, int calls) {
  const auto run = run::open(folder, bench::on_cpu());
  auto& forecaster = forecaster_of(run);
  auto given = bench::one_case(run.surrogate().inputs());
  auto& fields = given.at("fields");
  fields = fields.narrow(1, 0, forecaster.visible()).contiguous();
  const auto alpha =
      given.contains("alpha") ? given.at("alpha") : torch::zeros({1});
  const Handle handle(folder);
  tasks::NamedTensors places;
  places["fields"] = torch::empty_like(run.apply(given).at("fields"));
  const auto inputs = arrays(given), outputs = arrays(places);

  Times times;
  for (int n = -calls / 10; n < calls; ++n) {
    const double direct = bench::seconds_of([&] {
      const c10::InferenceMode inference;
      forecaster.predict(fields, alpha);
    });
    const double library = bench::seconds_of([&] { run.apply(given); });
    const double c = bench::seconds_of([&] { handle.apply(inputs, outputs); });
    if (n < 0) continue;  // warm-up
    times.direct.push_back(direct);
    times.library.push_back(library);
    times.c.push_back(c);
  }
  return times;
}

// Of a call and the direct one before it: what disturbs one disturbs the other.
std::vector<double> differences(const std::vector<double>& those,
                                const std::vector<double>& these) {
  std::vector<double> all(those);
  for (size_t n = 0; n < all.size(); ++n) all[n] -= these[n];
  return all;
}

nlohmann::json measure(const std::string& folder, int calls) {
  at::set_num_threads(1);
  const auto times = time(folder, calls);
  const auto microseconds = [](const std::vector<double>& seconds,
                               double share = 0.5) {
    return 1e6 * bench::quantile(seconds, share);
  };
  const auto overhead = differences(times.c, times.direct);
  return {{"calls", calls},
          {"direct_us", microseconds(times.direct)},
          {"library_us", microseconds(times.library)},
          {"c_us", microseconds(times.c)},
          {"library_overhead_us",
           microseconds(differences(times.library, times.direct))},
          {"overhead_us", microseconds(overhead)},
          {"overhead_lower_quartile_us", microseconds(overhead, 0.25)},
          {"overhead_upper_quartile_us", microseconds(overhead, 0.75)}};
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_cost_program(
      argc, argv,
      {.name = "call-cost",
       .about = "What a call through the C interface costs beside the network "
                "called through libtorch, as JSON",
       .count = 20000,
       .measure = measure});
}
