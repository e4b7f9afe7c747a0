#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "propagator/run/experiment.h"
#include "propagator/train/run_directory.h"

namespace propagator::run {

// What a training takes that several ranks do together (core/ranks.h).

// Of all ranks: throws on each unless they can share this training, and begin
// the same one. ConfigError of too few slices; DeviceError of a GPU; UsageError
// where a rank has another configuration, folder, checkpoint, program or number
// of threads than the first.
void expect_shareable(const Experiment& experiment,
                      const std::filesystem::path& folder,
                      const std::filesystem::path& checkpoint);

// Does `work` on the first rank; the others wait until it is done.
void on_first_rank(const std::function<void()>& work);

// The run's folder: `open` opens it on the first rank, and the others, when it
// has, know where it is.
train::RunDirectory open_folder_of_ranks(
    const std::filesystem::path& folder,
    const std::function<train::RunDirectory()>& open);

// For a result: how many ranks trained it in this session, the bytes that the
// first exchanged with them, and the seconds that it took. Null of one.
nlohmann::json record_of_ranks();

}  // namespace propagator::run
