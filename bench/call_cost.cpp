// What a call through the C interface costs beside the same call of the C++
// library: one case, one thread, the two by turns in one process.
//
//   propagator_call_cost RUN [CALLS]

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "propagator/capi/propagator.h"
#include "propagator/core/machine.h"
#include "propagator/core/stopwatch.h"
#include "propagator/core/version.h"
#include "propagator/run/run.h"

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

// One case of every input; eight of what else may have any length.
tasks::NamedTensors one_case(const tasks::Surrogate& surrogate) {
  tasks::NamedTensors inputs;
  for (const auto& port : surrogate.inputs()) {
    auto sizes = port.shape;
    std::replace(sizes.begin() + 1, sizes.end(), int64_t{-1}, int64_t{8});
    if (sizes[0] < 0) sizes[0] = 1;
    inputs[port.name] = torch::full(sizes, 0.5F);
  }
  return inputs;
}

template <class Work>
double microseconds(Work&& work) {
  const Stopwatch clock;
  work();
  return 1e6 * clock.seconds();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

nlohmann::json measure(const char* folder, int calls) {
  at::set_num_threads(1);
  const auto change = [](config::Document& document) {
    document.set("device", "cpu", "call_cost");
  };
  const auto run = run::open(folder, {.change = change});
  pg_options options = PG_OPTIONS;
  options.device = "cpu";
  pg_run* handle = nullptr;
  expect_ok(pg_open(folder, &options, &handle));

  const auto given = one_case(run.surrogate());
  const auto answers = run.apply(given);
  std::vector<pg_tensor> inputs, outputs;
  tasks::NamedTensors places;
  for (const auto& [name, values] : given) {
    inputs.push_back(array(name, values));
  }
  for (const auto& [name, values] : answers) {
    const auto place = torch::empty(values.sizes(), torch::kFloat32);
    outputs.push_back(array(places.emplace(name, place).first->first, place));
  }
  std::vector<double> library, c, difference;
  for (int n = -calls / 10; n < calls; ++n) {
    const double plain = microseconds([&] { run.apply(given); });
    const double through = microseconds([&] {
      expect_ok(pg_apply(handle, inputs.data(), inputs.size(), outputs.data(),
                         outputs.size()));
    });
    if (n < 0) continue;  // warm-up
    library.push_back(plain);
    c.push_back(through);
    difference.push_back(through - plain);
  }
  expect_ok(pg_close(handle));
  return {{"library_us", median(library)},        {"c_us", median(c)},
          {"overhead_us", median(difference)},    {"calls", calls},
          {"machine", machine_name(torch::kCPU)}, {"code", code_version()}};
}

}  // namespace

int main(int argc, char** argv) try {
  const int calls = argc > 2 ? std::stoi(argv[2]) : 20000;
  if (argc < 2 || calls < 10) {
    fmt::print(stderr, "usage: propagator_call_cost RUN [CALLS >= 10]\n");
    return static_cast<int>(propagator::ExitCode::kUsage);
  }
  fmt::print("{}\n", measure(argv[1], calls).dump(2));
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return static_cast<int>(propagator::exit_code(error));
}
