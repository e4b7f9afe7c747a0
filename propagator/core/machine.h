#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "propagator/core/device.h"

namespace propagator {

// What computes there: "NVIDIA H200", "Neoverse-N1", or, if nobody says,
// "Linux x86_64".
std::string machine_name(const c10::Device& device);

// What computes, as results say it: `code`, `machine`, the kind of `device`
// ("cuda") and the `precision`. Numbers of equal ones can stand in one row.
nlohmann::json computed_by(const Runtime& runtime);

}  // namespace propagator
