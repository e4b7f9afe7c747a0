#pragma once

#include <array>
#include <cstdint>

namespace propagator::report {

// A letter of the dot font, row by row from the top; bit 4 of a row is its
// leftmost dot. The last two rows lie below the base line.
inline constexpr int64_t kGlyphWidth = 5;
inline constexpr int64_t kGlyphHeight = 9;
using Glyph = std::array<uint8_t, kGlyphHeight>;

// A box for characters the font lacks.
const Glyph& glyph(char32_t character);

}  // namespace propagator::report
