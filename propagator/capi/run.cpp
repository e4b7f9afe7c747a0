#include <algorithm>
#include <cstring>

#include "propagator/capi/errors.h"
#include "propagator/capi/host_scope.h"
#include "propagator/capi/tensors.h"
#include "propagator/core/error.h"
#include "propagator/core/version.h"
#include "propagator/tasks/writes_answers.h"

namespace propagator::capi {
namespace {

std::span<const pg_tensor> tensors(const char* function, const char* argument,
                                   const pg_tensor* first, size_t count) {
  if (count > 0) expect_pointer(function, argument, first);
  return {first, count};
}

template <class Work>
auto hint_for_memory(const OpenRun& open, Work&& work) {
  return run::with_memory_hint(open.run().experiment(),
                               std::forward<Work>(work));
}

// In place where the surrogate can; otherwise its answers are copied.
void apply(const OpenRun& open, const tasks::NamedTensors& inputs,
           const tasks::NamedTensors& outputs) {
  const auto& surrogate = open.run().surrogate();
  const auto* writer = dynamic_cast<const tasks::WritesAnswers*>(&surrogate);
  if (writer != nullptr && !may_overlap(inputs, outputs)) {
    writer->apply_into(inputs, outputs);
  } else {
    const auto answers = surrogate.apply(inputs);
    for (const auto& [name, place] : outputs) {
      tasks::expect_answer_shape(name, place, answers.at(name).sizes());
    }
    for (const auto& [name, place] : outputs) place.copy_(answers.at(name));
  }
  const bool elsewhere = std::ranges::any_of(
      outputs, [](const auto& output) { return !output.second.is_cpu(); });
  if (elsewhere) wait_for(open.run().runtime());
}

pg_status list_ports(const char* function, const pg_run* run,
                     const OpenRun::Ports& (OpenRun::*which)() const,
                     const pg_port** ports, size_t* count) {
  return guarded([&] {
    expect_pointer(function, "where to put the ports", ports);
    expect_pointer(function, "where to put their count", count);
    const auto& all = ((*find(function, run)).*which)().all();
    *ports = all.data();
    *count = all.size();
  });
}

}  // namespace
}  // namespace propagator::capi

using namespace propagator;
using namespace propagator::capi;

const char* pg_version(void) {
  static const std::string version = code_version();
  return version.c_str();
}

const char* pg_last_error(void) { return last_error(); }

pg_status pg_open(const char* folder, const pg_options* options, pg_run** run) {
  if (run != nullptr) *run = nullptr;
  return guarded([&] {
    expect_pointer("pg_open", "where to put the run", run);
    const HostScope host;
    *run = keep(std::make_shared<const OpenRun>(folder, options));
  });
}

pg_status pg_close(pg_run* run) {
  return guarded([&] {
    if (run == nullptr) return;
    const HostScope host;
    take("pg_close", run);
  });
}

pg_status pg_inputs(const pg_run* run, const pg_port** ports, size_t* count) {
  return list_ports("pg_inputs", run, &OpenRun::inputs, ports, count);
}

pg_status pg_outputs(const pg_run* run, const pg_port** ports, size_t* count) {
  return list_ports("pg_outputs", run, &OpenRun::outputs, ports, count);
}

pg_status pg_apply(const pg_run* run, const pg_tensor* inputs,
                   size_t input_count, const pg_tensor* outputs,
                   size_t output_count) {
  return guarded([&] {
    constexpr const char* kName = "pg_apply";
    const auto given = tensors(kName, "inputs", inputs, input_count);
    const auto wanted = tensors(kName, "outputs", outputs, output_count);
    auto known = find(kName, run);
    const HostScope host(known->threads());
    const auto open = std::move(known);  // ends before the scope does
    hint_for_memory(*open, [&] {
      apply(*open, input_tensors(kName, given, open->inputs()),
            output_tensors(kName, wanted, open->outputs()));
    });
  });
}

pg_status pg_output_shape(const pg_run* run, const pg_tensor* inputs,
                          size_t input_count, const char* output,
                          int64_t* shape, int32_t* rank) {
  return guarded([&] {
    constexpr const char* kName = "pg_output_shape";
    expect_pointer(kName, "the name of an output", output);
    expect_pointer(kName, "where to put the shape", shape);
    expect_pointer(kName, "where to put the rank", rank);
    const auto given = tensors(kName, "inputs", inputs, input_count);
    auto known = find(kName, run);
    const HostScope host(known->threads());
    const auto open = std::move(known);
    open->outputs().named(kName, "output", output);
    const auto answers = hint_for_memory(*open, [&] {
      return open->run().apply(input_tensors(kName, given, open->inputs()));
    });
    const auto sizes = answers.at(output).sizes();
    std::ranges::copy(sizes, shape);
    *rank = static_cast<int32_t>(sizes.size());
  });
}
