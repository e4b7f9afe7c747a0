#pragma once

#include <string>
#include <string_view>

namespace propagator {

// The SHA-256 digest (FIPS 180-4) of `bytes` as 64 hexadecimal digits: what
// `sha256sum` prints. It guards checkpoints and names configurations.
std::string sha256(std::string_view bytes);

}  // namespace propagator
