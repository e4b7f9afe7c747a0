#include "fuzz/mutation.h"

#include <algorithm>

namespace propagator::fuzz {
namespace {

// Where arithmetic, parsers and printers have their corners.
constexpr const char* kNumbers[] = {"0",
                                    "-1",
                                    "1e999",
                                    "nan",
                                    "9223372036854775807",
                                    "1e-320",
                                    "-inf",
                                    "0.5.5",
                                    "4294967296",
                                    "true",
                                    "null",
                                    "18446744073709551616"};
constexpr unsigned char kBytes[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '\n', '"',
                                    '\'', '(',  '[',  '{',  ':',  ',',  '\\'};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string Mutation::next() {
  auto bytes = seeds_[below(seeds_.size())];
  for (size_t times = 1 + below(4); times > 0; --times) damage(bytes);
  return bytes;
}

void Mutation::damage(std::string& bytes) {
  const size_t at = below(bytes.size());
  const size_t length = std::min(1 + below(40), bytes.size() - at);
  const auto& other = seeds_[below(seeds_.size())];
  switch (below(7)) {
    case 0:
      if (!bytes.empty()) bytes[at] ^= static_cast<char>(1 << below(8));
      break;
    case 1:
      if (!bytes.empty()) {
        bytes[at] = static_cast<char>(kBytes[below(std::size(kBytes))]);
      }
      break;
    case 2:
      bytes.erase(at, length);
      break;
    case 3:
      bytes.insert(below(bytes.size()), bytes.substr(at, length));
      break;
    case 4:
      bytes.insert(at, other.substr(below(other.size()), length));
      break;
    case 5:
      bytes.resize(at);
      break;
    default:
      replace_number(bytes);
  }
}

void Mutation::replace_number(std::string& bytes) {
  const auto from = bytes.begin() + static_cast<int64_t>(below(bytes.size()));
  const auto begin = std::find_if(from, bytes.end(), is_digit);
  const auto end = std::find_if_not(begin, bytes.end(), is_digit);
  bytes.replace(begin, end, kNumbers[below(std::size(kNumbers))]);
}

}  // namespace propagator::fuzz
