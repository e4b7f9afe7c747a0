#pragma once

#include <string>
#include <string_view>

namespace propagator {

// Text that others wrote, as nothing but characters to look at: each control
// character, which could end a line of a script or command a terminal, and each
// byte that is not UTF-8 becomes U+FFFD. Those in `kept` stay.
std::string plain_text(std::string_view text, std::string_view kept = "");

// Whether `plain_text` leaves it as it is.
bool is_plain_text(std::string_view text, std::string_view kept = "");

}  // namespace propagator
