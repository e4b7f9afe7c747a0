#include "propagator/data/fields/field_dataset.h"

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/progress.h"

namespace propagator::data {
namespace {

using torch::Tensor;

constexpr int64_t kCasesAtOnce = 16;
constexpr double kBytesAtOnce = 1 << 28;
constexpr double kMostOfMemory = 0.5;
constexpr size_t kMostBatches = 32;  // that are held for later

}  // namespace

FieldDataset::FieldDataset(const FieldSource& source, int64_t seed,
                           const Runtime& runtime, Storage storage)
    : source_(source), runtime_(runtime) {
  const int64_t cases = source.cases();
  if (cases < kFewestCases && !source.has_split()) {
    throw DataError(
        fmt::format("expected at least {} cases, for a 70/20/10 split, got {}",
                    kFewestCases, cases),
        "one long history can be cut into cases");
  }
  const auto memory = static_cast<double>(memory_bytes(runtime));
  const bool fits = bytes() <= kMostOfMemory * memory;
  if (storage == Storage::kMemory && !fits) {
    throw DeviceError(
        fmt::format("the fields take {:.3g} GB, and the device has {:.3g} GB",
                    bytes() / 1e9, memory / 1e9),
        "data.storage=stream reads them as they are used");
  }
  const auto& numbers = source.parameters();
  parameters_ = numbers.defined() ? numbers.to(runtime.options())
                                  : torch::zeros({cases, 0}, runtime.options());
  const bool keep = storage != Storage::kStream && fits;
  read_all(keep);
  const auto split = source.split(seed);
  for (const auto& [part, name] : config::Names<Split>::all) {
    cases_of_[part] = torch::tensor(split.of(part), torch::kInt64)
                          .to(keep ? runtime.device : torch::kCPU);
  }
  ahead_ = std::make_unique<ReadAhead<Windows, Tensor>>(
      [&from = source_](const Windows& windows) {
        std::vector<Tensor> each;
        for (size_t n = 0; n < windows.cases.size(); ++n) {
          each.push_back(from.values(windows.cases[n], 1, windows.first[n],
                                     windows.length));
        }
        return torch::cat(each);
      },
      kMostBatches);
  log::info("{:.2f} GB of fields, {}", bytes() * 1e-9,
            keep ? "in memory" : "read as they are used");
}

std::vector<int64_t> FieldDataset::shape() const {
  std::vector<int64_t> shape{source_.cases(), source_.frames()};
  for (const int64_t n : source_.nodes()) shape.push_back(n);
  shape.push_back(std::ssize(source_.layout().channels));
  return shape;
}

double FieldDataset::bytes() const {
  double bytes = static_cast<double>(c10::elementSize(runtime_.dtype()));
  for (const int64_t n : shape()) bytes *= static_cast<double>(n);
  return bytes;
}

// Once through all of them: what is not finite is found before anything is
// trained, and the sums tell the data from others.
void FieldDataset::read_all(bool keep) {
  const int64_t cases = source_.cases();
  if (keep) values_ = torch::empty(shape(), runtime_.options());
  const double each = bytes() / static_cast<double>(cases);
  const int64_t at_once = std::clamp(static_cast<int64_t>(kBytesAtOnce / each),
                                     int64_t{1}, kCasesAtOnce);
  auto sum = torch::zeros({}, torch::kFloat64);
  Progress progress(keep ? "reading fields" : "checking fields", cases);
  for (int64_t n = 0; n < cases; n += at_once) {
    const int64_t count = std::min(at_once, cases - n);
    const auto some = source_.values(n, count);
    if (keep) values_.narrow(0, n, count).copy_(some);
    // Each case with a weight of its own: their order counts.
    sum += torch::dot(some.to(torch::kFloat64).square().flatten(1).sum(1),
                      torch::arange(n + 1, n + count + 1, torch::kFloat64));
    progress.update(n + count);
  }
  fingerprint_ = torch::stack(
      {sum, parameters_.to(torch::kCPU, torch::kFloat64).square().sum()});
}

int64_t FieldDataset::windows(Split split, int64_t length) const {
  return cases(split) * (frames() - length + 1);
}

FieldDataset::Windows FieldDataset::windows_of(Split split,
                                               const Tensor& positions,
                                               int64_t length) const {
  const int64_t each = frames() - length + 1;
  const auto at = positions.to(torch::kCPU).contiguous();
  const auto cases = cases_of_.at(split).to(torch::kCPU);
  Windows windows{{}, {}, length};
  for (int64_t n = 0; n < at.numel(); ++n) {
    const int64_t position = at[n].item<int64_t>();
    windows.cases.push_back(cases[position / each].item<int64_t>());
    windows.first.push_back(position % each);
  }
  return windows;
}

void FieldDataset::expect_windows(Split split, const Tensor& positions,
                                  int64_t length) const {
  if (in_memory()) return;
  ahead_->expect(windows_of(split, positions, length));
}

FieldBatch FieldDataset::windows_at(Split split, const Tensor& positions,
                                    int64_t length) const {
  if (!in_memory()) {
    const auto windows = windows_of(split, positions, length);
    const auto cases = torch::tensor(windows.cases, torch::kInt64);
    return {ahead_->take(windows).to(runtime_.options()),
            parameters_.index_select(0, cases.to(runtime_.device))};
  }
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
  const auto numbers = parameters_.index_select(0, cases.to(runtime_.device));
  if (in_memory()) return {values_.index_select(0, cases), numbers};
  std::vector<Tensor> each;
  for (int64_t n = 0; n < cases.size(0); ++n) {
    each.push_back(source_.values(cases[n].item<int64_t>(), 1));
  }
  return {torch::cat(each).to(runtime_.options()), numbers};
}

Tensor FieldDataset::parameters(Split split) const {
  return parameters_.index_select(0, cases_of_.at(split).to(runtime_.device));
}

}  // namespace propagator::data
