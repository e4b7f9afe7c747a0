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

// Of cases; undefined as they are.
Tensor joined(const std::vector<Tensor>& cases) {
  return cases.empty() || !cases[0].defined() ? Tensor() : torch::cat(cases);
}

}  // namespace

FieldDataset::FieldDataset(const FieldSource& source, const SplitIndices& split,
                           const Runtime& runtime, Storage storage)
    : source_(source), files_(source.file()), runtime_(runtime) {
  const auto memory = static_cast<double>(memory_bytes(runtime));
  const bool fits = bytes() <= kMostOfMemory * memory;
  if (storage == Storage::kMemory && !fits) {
    throw DeviceError(
        fmt::format("the fields take {:.3g} GB, and the device has {:.3g} GB",
                    bytes() / 1e9, memory / 1e9),
        "data.storage=stream reads them as they are used");
  }
  const auto& numbers = source.parameters();
  parameters_ = numbers.defined()
                    ? numbers.to(runtime.options())
                    : torch::zeros({source.cases(), 0}, runtime.options());
  const bool keep = storage != Storage::kStream && fits;
  read_all(keep);
  for (const auto& [part, name] : config::Names<Split>::all) {
    cases_of_[part] = torch::tensor(split.of(part), torch::kInt64)
                          .to(keep ? runtime.device : torch::kCPU);
  }
  ahead_ = std::make_unique<ReadAhead<Windows, Read>>(
      [&from = source_, &files = files_](const Windows& windows) {
        files.expect_unchanged();
        std::vector<Tensor> frames, constants;
        for (size_t n = 0; n < windows.cases.size(); ++n) {
          const int64_t number = windows.cases[n];
          frames.push_back(
              from.values(number, 1, windows.first[n], windows.length));
          constants.push_back(from.constants(number, 1));
        }
        return Read{torch::cat(frames), joined(constants)};
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
  double nodes = static_cast<double>(c10::elementSize(runtime_.dtype()));
  for (const int64_t n : source_.nodes()) nodes *= static_cast<double>(n);
  const auto& layout = source_.layout();
  return nodes * static_cast<double>(source_.cases() *
                                     (frames() * std::ssize(layout.channels) +
                                      std::ssize(layout.constants)));
}

// Once through all of them: what is not finite is found before anything is
// trained, and the sums tell the data from others.
void FieldDataset::read_all(bool keep) {
  const int64_t cases = source_.cases();
  if (keep) values_ = torch::empty(shape(), runtime_.options());
  const double each = bytes() / static_cast<double>(cases);
  const int64_t at_once = std::clamp(static_cast<int64_t>(kBytesAtOnce / each),
                                     int64_t{1}, kCasesAtOnce);
  auto sum = torch::zeros({}, torch::kFloat64), still = sum.clone();
  std::vector<Tensor> kept;
  Progress progress(keep ? "reading fields" : "checking fields", cases);
  for (int64_t n = 0; n < cases; n += at_once) {
    const int64_t count = std::min(at_once, cases - n);
    const auto some = source_.values(n, count);
    if (keep) values_.narrow(0, n, count).copy_(some);
    // Each case with a weight of its own: their order counts.
    const auto weights = torch::arange(n + 1, n + count + 1, torch::kFloat64);
    const auto squares = [&](const Tensor& numbers) {
      return torch::dot(numbers.to(torch::kFloat64).square().flatten(1).sum(1),
                        weights);
    };
    sum += squares(some);
    if (const auto constants = source_.constants(n, count);
        constants.defined()) {
      still += squares(constants);
      if (keep) kept.push_back(constants.to(runtime_.options()));
    }
    progress.update(n + count);
  }
  constants_ = joined(kept);
  std::vector<Tensor> sums{
      sum, parameters_.to(torch::kCPU, torch::kFloat64).square().sum()};
  if (!source_.layout().constants.empty()) sums.push_back(still);
  fingerprint_ = torch::stack(sums);
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

FieldBatch FieldDataset::batch_of(const Read& read,
                                  const Tensor& parameters) const {
  return {read.frames.to(runtime_.options()), parameters,
          read.constants.defined() ? read.constants.to(runtime_.options())
                                   : Tensor()};
}

FieldBatch FieldDataset::windows_at(Split split, const Tensor& positions,
                                    int64_t length) const {
  if (!in_memory()) {
    const auto windows = windows_of(split, positions, length);
    const auto cases = torch::tensor(windows.cases, torch::kInt64);
    return batch_of(ahead_->take(windows),
                    parameters_.index_select(0, cases.to(runtime_.device)));
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
          parameters_.index_select(0, cases),
          constants_.defined() ? constants_.index_select(0, cases) : Tensor()};
}

FieldBatch FieldDataset::range(Split split, int64_t begin,
                               int64_t count) const {
  const auto cases = cases_of_.at(split).slice(0, begin, begin + count);
  const auto numbers = parameters_.index_select(0, cases.to(runtime_.device));
  if (in_memory()) {
    return {
        values_.index_select(0, cases), numbers,
        constants_.defined() ? constants_.index_select(0, cases) : Tensor()};
  }
  files_.expect_unchanged();
  std::vector<Tensor> frames, constants;
  for (int64_t n = 0; n < cases.size(0); ++n) {
    const int64_t number = cases[n].item<int64_t>();
    frames.push_back(source_.values(number, 1));
    constants.push_back(source_.constants(number, 1));
  }
  return batch_of({torch::cat(frames), joined(constants)}, numbers);
}

Tensor FieldDataset::parameters(Split split) const {
  return parameters_.index_select(0, cases_of_.at(split).to(runtime_.device));
}

}  // namespace propagator::data
