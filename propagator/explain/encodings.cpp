#include "propagator/explain/encodings.h"

#include <fmt/format.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/nn/positional_encoding.h"
#include "propagator/report/figure.h"

namespace propagator::explain {
namespace {

constexpr int64_t kMostPositions = 100000, kMostDims = 4096;

torch::Tensor encodings(int64_t positions, int64_t dims) {
  if (positions < 1 || positions > kMostPositions || dims < 2 ||
      dims > kMostDims || dims % 2 != 0) {
    throw UsageError(fmt::format(
        "[encodings] expected 1 to {} positions and an even number of "
        "dimensions up to {}, got {} and {}",
        kMostPositions, kMostDims, positions, dims));
  }
  return nn::interleaved_encoding(positions, dims, torch::kFloat64);
}

}  // namespace

report::Table encoding_table(int64_t positions, int64_t dims) {
  const auto values = encodings(positions, dims);
  std::vector<std::string> header{"position"};
  for (int64_t i = dims - 1; i >= 0; --i) {
    const double scale = std::pow(
        10000.0, static_cast<double>(i - i % 2) / static_cast<double>(dims));
    header.push_back(fmt::format("{}: {}(p{})", i, i % 2 == 0 ? "sin" : "cos",
                                 i < 2 ? "" : fmt::format("/{:.6g}", scale)));
  }
  report::Table table(header);
  for (int64_t p = 0; p < positions; ++p) {
    std::vector<std::string> row{std::to_string(p)};
    for (int64_t i = dims - 1; i >= 0; --i) {
      row.push_back(fmt::format("{:.4f}", values[p][i].item<double>()));
    }
    table.row(row);
  }
  return table;
}

nlohmann::json encoding_numbers(int64_t positions, int64_t dims) {
  const auto values = encodings(positions, dims);
  auto rows = nlohmann::json::array();
  for (int64_t p = 0; p < positions; ++p) {
    rows.push_back(report::numbers(values[p]));
  }
  return {{"positions", positions}, {"dims", dims}, {"encodings", rows}};
}

}  // namespace propagator::explain
