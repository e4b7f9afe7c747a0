#include "propagator/data/fields/field_dataset.h"

#include "propagator/core/error.h"
#include "propagator/core/progress.h"

namespace propagator::data {
namespace {

using torch::Tensor;

constexpr int64_t kCasesAtOnce = 16;
constexpr double kMostOfMemory = 0.5;

}  // namespace

FieldDataset::FieldDataset(const FieldSource& source, int64_t seed,
                           const Runtime& runtime)
    : runtime_(runtime) {
  const int64_t cases = source.cases();
  if (cases < kFewestCases && !source.has_split()) {
    throw DataError(
        fmt::format("expected at least {} cases, for a 70/20/10 split, got {}",
                    kFewestCases, cases),
        "one long history can be cut into cases");
  }
  std::vector<int64_t> shape{cases, source.layout().times.numel()};
  for (const int64_t n : source.nodes()) shape.push_back(n);
  shape.push_back(std::ssize(source.layout().channels));
  double bytes = static_cast<double>(c10::elementSize(runtime.dtype()));
  for (const int64_t n : shape) bytes *= static_cast<double>(n);
  const auto memory = static_cast<double>(memory_bytes(runtime));
  if (bytes > kMostOfMemory * memory) {
    throw DeviceError(
        fmt::format("the fields take {:.3g} GB, and the device has {:.3g} GB",
                    bytes / 1e9, memory / 1e9),
        "take fewer cases or frames");
  }
  values_ = torch::empty(shape, runtime.options());
  auto sum = torch::zeros({}, torch::kFloat64);
  Progress progress("reading fields", cases);
  for (int64_t n = 0; n < cases; n += kCasesAtOnce) {
    const int64_t count = std::min(kCasesAtOnce, cases - n);
    const auto some = source.values(n, count);
    values_.narrow(0, n, count).copy_(some);
    // Each case with a weight of its own: their order counts.
    sum += torch::dot(some.to(torch::kFloat64).square().flatten(1).sum(1),
                      torch::arange(n + 1, n + count + 1, torch::kFloat64));
    progress.update(n + count);
  }
  const auto& numbers = source.parameters();
  parameters_ = numbers.defined() ? numbers.to(runtime.options())
                                  : torch::zeros({cases, 0}, runtime.options());
  fingerprint_ = torch::stack(
      {sum, parameters_.to(torch::kCPU, torch::kFloat64).square().sum()});
  const auto split = source.split(seed);
  for (const auto& [part, name] : config::Names<Split>::all) {
    cases_of_[part] =
        torch::tensor(split.of(part), torch::kInt64).to(runtime.device);
  }
}

int64_t FieldDataset::windows(Split split, int64_t length) const {
  return cases(split) * (frames() - length + 1);
}

FieldBatch FieldDataset::windows_at(Split split, const Tensor& positions,
                                    int64_t length) const {
  const int64_t each = frames() - length + 1;
  const auto at = positions.to(runtime_.device);
  const auto cases = cases_of_.at(split).index_select(
      0, at.div(each, /*rounding_mode=*/"floor"));
  const auto first = cases * frames() + at.remainder(each);
  const auto index =
      first.unsqueeze(1) + torch::arange(length, first.options());  // (B, n)
  auto shape = values_.sizes().vec();
  shape[0] = at.size(0);
  shape[1] = length;
  return {values_.flatten(0, 1).index_select(0, index.flatten()).view(shape),
          parameters_.index_select(0, cases)};
}

FieldBatch FieldDataset::range(Split split, int64_t begin,
                               int64_t count) const {
  const auto cases = cases_of_.at(split).slice(0, begin, begin + count);
  return {values_.index_select(0, cases), parameters_.index_select(0, cases)};
}

}  // namespace propagator::data
