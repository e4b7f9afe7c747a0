#include "propagator/train/shared_rows.h"

#include <torch/utils.h>

#include <cstring>

#include "propagator/core/ranks.h"

namespace propagator::train {
namespace {

std::string bytes_of(const std::vector<torch::Tensor>& rows) {
  if (rows.empty()) return "";
  const auto table = torch::stack(rows).to(torch::kCPU, torch::kFloat64);
  return {reinterpret_cast<const char*>(table.data_ptr<double>()),
          static_cast<size_t>(table.numel()) * sizeof(double)};
}

torch::Tensor table_of(const std::string& bytes, int64_t rows) {
  const auto numbers = static_cast<int64_t>(bytes.size() / sizeof(double));
  const auto table = torch::empty({rows, numbers / rows}, torch::kFloat64);
  std::memcpy(table.data_ptr<double>(), bytes.data(), bytes.size());
  return table;
}

}  // namespace

std::vector<torch::Tensor> gather_rows(std::vector<torch::Tensor> own,
                                       int64_t count) {
  if (!ranks().are_several()) return own;
  std::vector<torch::Tensor> all;
  const auto said = ranks().gather(bytes_of(own));
  for (size_t rank = 0; rank < said.size(); ++rank) {
    const auto share = share_of(count, static_cast<int64_t>(rank),
                                static_cast<int64_t>(said.size()));
    if (share.size() == 0) continue;
    const auto rows = table_of(said[rank], share.size()).unbind();
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace propagator::train
