#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "propagator/cli/commands.h"
#include "propagator/cli/launched_ranks.h"
#include "propagator/core/log.h"
#include "propagator/core/machine.h"
#include "propagator/core/process.h"
#include "propagator/core/version.h"
#include "propagator/data/mat.h"
#include "propagator/data/npz.h"
#include "propagator/report/png.h"
#include "propagator/serve/http_server.h"

namespace propagator::cli {
namespace {

bool has(const char* program) { return !find_program(program).empty(); }

// That OpenBLAS has chosen for this processor, "SkylakeX"; empty if the BLAS is
// another.
std::string kernels_of_openblas() {
  using CoreName = const char* (*)();
  const auto chosen =
      reinterpret_cast<CoreName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return chosen == nullptr ? "" : chosen();
}

int show_machine(bool as_json) {
  const auto blas = blas_info();
  const auto kernels = kernels_of_openblas();
  std::vector<std::string> devices, machines, both;
  const auto add = [&](const std::string& device) {
    devices.push_back(device);
    machines.push_back(machine_name(torch::Device(device)));
    both.push_back(fmt::format("{} ({})", device, machines.back()));
  };
  add("cpu");
  for (int n = 0; n < static_cast<int>(torch::cuda::device_count()); ++n) {
    add(fmt::format("cuda:{}", n));
  }
  if (at::hasMPS()) add("mps");
  if (as_json) {
    const nlohmann::json info{{"version", kVersion},
                              {"commit", kCommit},
                              {"libtorch", TORCH_VERSION},
                              {"blas", blas.name},
                              {"blas_is_reference", blas.reference},
                              {"blas_kernels", kernels},
                              {"threads", at::get_num_threads()},
                              {"devices", devices},
                              {"machines", machines},
                              {"npz", data::has_npz()},
                              {"mat", data::has_matio()},
                              {"hdf5", true},
                              {"mpi", has_mpi()},
                              {"png", report::has_png()},
                              {"http", serve::has_http()},
                              {"gnuplot", has("gnuplot")},
                              {"ffmpeg", has("ffmpeg")}};
    fmt::print("{}\n", info.dump(2));
  } else {
    fmt::print("propagator  {} {}\n", kVersion, kCommit);
    fmt::print("libtorch    {}\n", TORCH_VERSION);
    fmt::print("BLAS        {}{}\n", blas.name,
               kernels.empty() ? std::string()
                               : fmt::format(" (kernels {})", kernels));
    fmt::print("threads     {}\n", at::get_num_threads());
    fmt::print("devices     {}\n", fmt::join(both, ", "));
    fmt::print("formats     safetensors, HDF5{}{}\n",
               data::has_npz() ? ", npz" : " (npz: build with libzip)",
               data::has_matio() ? ", mat" : " (mat: build with matio)");
    fmt::print("ranks       {}\n", has_mpi() ? "MPI" : "no (build with MPI)");
    fmt::print("pictures    gnuplot {}, ffmpeg {}, png {}\n",
               has("gnuplot") ? "yes" : "no (figures need it)",
               has("ffmpeg") ? "yes" : "no (animations become animated PNG)",
               report::has_png() ? "yes" : "no (build with libpng)");
    fmt::print("server      {}\n",
               serve::has_http() ? "HTTP" : "no (build with Boost)");
  }
  if (blas.reference) {
    log::warn(
        "this is the reference BLAS, many times slower than OpenBLAS; "
        "scripts/setup installs OpenBLAS");
  }
  return 0;
}

}  // namespace

void add_info(CLI::App& app, Action& action) {
  const auto json = std::make_shared<bool>(false);
  auto* verb =
      app.add_subcommand("info", "What this build and this machine have");
  verb->add_flag("--json", *json, "Print it as JSON");
  verb->callback(
      [json, &action] { action = [json] { return show_machine(*json); }; });
}

}  // namespace propagator::cli
