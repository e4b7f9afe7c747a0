#pragma once

#include <c10/core/Device.h>

#include <string>

namespace propagator {

// What computes there: "NVIDIA H200", "Neoverse-N1", or, if nobody says,
// "Linux x86_64".
std::string machine_name(const c10::Device& device);

}  // namespace propagator
