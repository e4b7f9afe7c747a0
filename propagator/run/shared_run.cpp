#include "propagator/run/shared_run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <sstream>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/core/ranks.h"
#include "propagator/core/version.h"
#include "propagator/train/slices.h"

namespace propagator::run {
namespace {

using Lines = std::vector<std::string>;

// All that decides the bits of a training, a line each.
std::string description_of(const Experiment& experiment, const fs::path& folder,
                           const fs::path& checkpoint) {
  auto text = fmt::format(
      "program={} {}\nfolder={}\ncheckpoint={}\nthreads={}\n", kVersion,
      kCommit, folder.string(), checkpoint.string(), at::get_num_threads());
  for (const auto& field : experiment.schema().fields()) {
    if (field.role == config::Role::kPlace) continue;
    text += fmt::format("{}={}\n", field.path, field.get());
  }
  return text;
}

Lines lines_of(const std::string& text) {
  std::istringstream stream(text);
  Lines lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The first line in which they differ, of each.
std::pair<std::string, std::string> difference(const std::string& a,
                                               const std::string& b) {
  auto first = lines_of(a), second = lines_of(b);
  const auto length = std::max(first.size(), second.size());
  first.resize(length);
  second.resize(length);
  const auto at = std::ranges::mismatch(first, second);
  return {*at.in1, *at.in2};
}

void expect_equal(const Lines& descriptions) {
  for (size_t rank = 1; rank < descriptions.size(); ++rank) {
    if (descriptions[rank] == descriptions[0]) continue;
    const auto [here, there] = difference(descriptions[0], descriptions[rank]);
    throw UsageError(
        fmt::format("the ranks were not started alike: rank 0 has {}, rank {} "
                    "has {}",
                    here, rank, there),
        "give all ranks the same program, command line and files; a rank's "
        "number of threads is that of its cores unless --threads says it");
  }
}

}  // namespace

void expect_shareable(const Experiment& experiment, const fs::path& folder,
                      const fs::path& checkpoint) {
  if (!ranks().are_several()) return;
  expect_equal(ranks().gather(description_of(experiment, folder, checkpoint)));
  experiment.with_place(
      [&] { train::expect_slices_for_ranks(experiment.train().slices); });
  if (!experiment.make_runtime().device.is_cpu()) {
    throw DeviceError("[ranks] expected a CPU: ranks do not share work on GPUs",
                      "use --device cpu, or one process");
  }
  if (experiment.train().optimizer.kind ==
      train::OptimizerKind::kLevenbergMarquardt) {
    log::warn(
        "ranks do not share steps of Levenberg-Marquardt: each computes all "
        "of them");
  }
  const int threads = at::get_num_threads();
  log::info("{} ranks with {} thread{} each share {} slices of a batch",
            ranks().size(), threads, threads == 1 ? "" : "s",
            experiment.train().slices);
}

void on_first_rank(const std::function<void()>& work) {
  if (ranks().is_first()) {
    const RanksScope alone(one_rank());
    work();
  }
  wait_for_all_ranks();
}

train::RunDirectory open_folder_of_ranks(
    const fs::path& folder, const std::function<train::RunDirectory()>& open) {
  wait_for_all_ranks();  // nobody still reads what is changed now
  if (!ranks().is_first()) {
    wait_for_all_ranks();
    return train::RunDirectory::of_another(folder);
  }
  auto run = open();
  wait_for_all_ranks();
  return run;
}

nlohmann::json record_of_ranks() {
  if (!ranks().are_several()) return {};
  const auto& traffic = ranks().traffic();
  return {{"count", ranks().size()},
          {"exchanged_bytes", traffic.bytes},
          {"exchange_seconds", traffic.seconds}};
}

}  // namespace propagator::run
