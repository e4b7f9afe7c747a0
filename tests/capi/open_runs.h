#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "propagator/capi/propagator.h"
#include "propagator/run/train.h"
#include "testing.h"

namespace propagator::testing {

// Runs of hardly any training, made once: a forecast of plates (6 rows, 7
// columns, 8 frames, 3 of them given) and a PDE in x and t.
inline const std::filesystem::path& runs_folder() {
  static const TemporaryFolder folder;
  static const bool made = [] {
    const auto train = [&](const char* name, const char* text) {
      Observer silent;
      run::train(run::Experiment(config::Document::from_text(text, name)),
                 folder / name, false, silent);
    };
    train("plate",
          "task: forecast\ndevice: cpu\nplate: {rows: 6, cols: 7, frames: 8, "
          "segment_start: 1, segment_length: 2}\ndata: {cases: 20}\nmodel: "
          "{visible: 3, width: 16, layers: 2, heads: 2, feed_forward: 8}\n"
          "train: {max_steps: 2, batch: 4}\neval: {batch: 4}\n"
          "report: {page: no}\n");
    train("pde",
          "task: solve\ndevice: cpu\nproblem:\n  domain: ['x in [0, 1]', "
          "'t in [0, 1]']\n  fields: u\n  equations: ['u_t = 0.1*u_xx']\n"
          "  conditions: ['at t=0: u = sin(pi*x)', 'on x=0: u = 0', "
          "'on x=1: u = 0']\npoints: {per_axis: 5, validation_per_axis: 3}\n"
          "model: {name: pinn, width: 8}\ntrain: {max_steps: 2}\n"
          "report: {page: no}\n");
    return true;
  }();
  static_cast<void>(made);
  return folder.path();
}

// A run that is closed at the end of the test.
class OpenHandle {
 public:
  explicit OpenHandle(const std::string& name, int64_t threads = 0) {
    pg_options options = PG_OPTIONS;
    options.threads = threads;
    status = pg_open((runs_folder() / name).c_str(), &options, &run);
    EXPECT_EQ(status, PG_OK) << pg_last_error();
  }
  ~OpenHandle() { pg_close(run); }
  OpenHandle(const OpenHandle&) = delete;
  OpenHandle& operator=(const OpenHandle&) = delete;

  pg_run* run = nullptr;
  pg_status status;
};

// A tensor's own memory as a caller's array; it must outlive what is returned.
inline pg_tensor array(const char* name, const torch::Tensor& values) {
  const auto type = values.scalar_type();
  return {.name = name,
          .data = values.data_ptr(),
          .shape = values.sizes().data(),
          .strides = values.strides().data(),
          .rank = static_cast<int32_t>(values.dim()),
          .type = type == torch::kFloat32   ? PG_FLOAT32
                  : type == torch::kFloat64 ? PG_FLOAT64
                  : type == torch::kInt32   ? PG_INT32
                                            : PG_INT64,
          .device = PG_CPU,
          .device_index = 0};
}

inline pg_status apply(const pg_run* run, const std::vector<pg_tensor>& inputs,
                       const std::vector<pg_tensor>& outputs) {
  return pg_apply(run, inputs.data(), inputs.size(), outputs.data(),
                  outputs.size());
}

// The same numbers with the first axis fastest, as Fortran has them.
inline torch::Tensor column_major(const torch::Tensor& values) {
  std::vector<int64_t> reversed;
  for (int64_t k = values.dim(); k-- > 0;) reversed.push_back(k);
  return values.permute(reversed).contiguous().permute(reversed);
}

}  // namespace propagator::testing
