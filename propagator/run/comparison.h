#pragma once

#include <filesystem>
#include <vector>

namespace propagator::run {

// Several runs of one task on one page, `folder`/report.html: their numbers in
// one table, their curves in one figure, and the keys in which their
// configurations differ. UsageError if they are of different tasks; FileError
// for a run without a result.
std::filesystem::path write_comparison(
    const std::vector<std::filesystem::path>& runs,
    const std::filesystem::path& folder);

}  // namespace propagator::run
