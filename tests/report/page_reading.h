#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "propagator/core/files.h"
#include "propagator/core/process.h"
#include "testing.h"

namespace propagator::testing {

// Reads what report::PackedLevels wrote, as a page does: (frames, rows, cols)
// whole numbers, one after the other.
inline std::vector<int64_t> unpacked(const std::string& bytes, int64_t order,
                                     size_t rows, size_t cols, int bits,
                                     size_t count) {
  size_t at = 0;
  const auto take = [&](int wanted) {
    int64_t value = 0;
    for (int n = 0; n < wanted; ++n, ++at) {
      const int byte = static_cast<unsigned char>(bytes.at(at / 8));
      value = 2 * value + (byte >> (7 - at % 8) & 1);
    }
    return value;
  };
  std::vector<int64_t> all;
  int rate = 0;
  while (all.size() < count) {
    if (all.size() % cols == 0) rate = static_cast<int>(take(4));
    int64_t ones = 0;
    while (ones < 20 && take(1) == 1) ++ones;
    const int64_t z = ones < 20 ? (ones << rate) + take(rate) : take(bits);
    all.push_back(z % 2 == 0 ? z / 2 : -(z + 1) / 2);
  }
  EXPECT_EQ((at + 7) / 8, bytes.size());
  for (int64_t n = 0; n < order; ++n) {
    for (size_t i = 0; i < count; ++i) {
      if (i % cols != 0) all[i] += all[i - 1];
    }
    for (size_t i = 0; i < count; ++i) {
      if (i / cols % rows != 0) all[i] += all[i - cols];
    }
  }
  const int64_t size = int64_t{1} << bits;
  for (auto& level : all) level = (level % size + size) % size;
  return all;
}

// A part of a case in an explorer's data, "values" or "difference", as numbers
// from low to high.
inline std::vector<double> unpacked(const nlohmann::json& data,
                                    const nlohmann::json& part, double low,
                                    double high) {
  const size_t rows = data.at("rows"), cols = data.at("cols");
  const int bits = data.at("bits");
  const auto levels =
      unpacked(from_base64(part.at("data")), part.at("order"), rows, cols, bits,
               data.at("times").size() * rows * cols);
  std::vector<double> numbers;
  for (const int64_t level : levels) {
    numbers.push_back(low + (high - low) * static_cast<double>(level) /
                                ((1 << bits) - 1));
  }
  return numbers;
}

// The data of a page's first explorer of fields.
inline nlohmann::json explored(const std::string& page) {
  const std::string begin =
      "data-kind=\"fields\"><script "
      "type=\"application/json\">";
  const size_t at = page.find(begin) + begin.size();
  return nlohmann::json::parse(
      page.substr(at, page.find("</script>", at) - at));
}

// What a page's title says once its script has run in a browser.
inline nlohmann::json title_in_browser(const fs::path& chromium,
                                       const fs::path& folder,
                                       const std::string& script) {
  write_file_atomically(folder / "driven.html",
                        read_file(folder / "report.html") + script);
  Process browser(chromium, {"--headless=new", "--no-sandbox", "--disable-gpu",
                             "--user-data-dir=" + (folder / "profile").string(),
                             "--virtual-time-budget=5000", "--dump-dom",
                             "file://" + (folder / "driven.html").string()});
  const auto [status, output] = browser.wait();
  EXPECT_EQ(status, 0) << output;
  const size_t at = output.find("<title>") + 7;
  return nlohmann::json::parse(
      output.substr(at, output.find("</title>", at) - at), nullptr, false);
}

}  // namespace propagator::testing
