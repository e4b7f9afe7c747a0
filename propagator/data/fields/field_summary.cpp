#include "propagator/data/fields/field_summary.h"

#include <functional>

#include "propagator/core/progress.h"
#include "propagator/core/stop.h"

namespace propagator::data {
namespace {

using torch::Tensor;

constexpr double kBytesOfSome = 1 << 27;
constexpr int64_t kMostOfSome = 64;

void for_some_cases(const FieldSource& source, const char* what,
                    const std::function<void(int64_t, const Tensor&)>& use) {
  double each = static_cast<double>(source.frames()) * sizeof(float) *
                static_cast<double>(source.layout().channels.size());
  for (const int64_t n : source.nodes()) each *= static_cast<double>(n);
  const int64_t at_once = std::clamp(static_cast<int64_t>(kBytesOfSome / each),
                                     int64_t{1}, kMostOfSome);
  Progress progress(what, source.cases());
  for (int64_t n = 0; n < source.cases(); n += at_once) {
    const int64_t count = std::min(at_once, source.cases() - n);
    expect_no_stop();
    use(n, source.values(n, count));
    progress.update(n + count);
  }
}

// Ranges of columns that come some rows at a time: means and squares about them
// are joined, so that nothing is lost where the mean is large.
class ColumnRanges {
 public:
  // (rows, columns)
  void add(const Tensor& rows) {
    const auto some = rows.to(torch::kFloat64);
    const auto count = static_cast<double>(some.size(0));
    const auto mean = some.mean(0);
    const auto squares = (some - mean).square().sum(0);
    const auto low = std::get<0>(some.min(0)), high = std::get<0>(some.max(0));
    if (count_ == 0) {
      count_ = count;
      smallest_ = low, largest_ = high, mean_ = mean, squares_ = squares;
      return;
    }
    const auto apart = mean - mean_;
    const double all = count_ + count;
    smallest_ = torch::minimum(smallest_, low);
    largest_ = torch::maximum(largest_, high);
    mean_ = mean_ + apart * (count / all);
    squares_ = squares_ + squares + apart.square() * (count_ * count / all);
    count_ = all;
  }

  std::vector<FieldRange> ranges() const {
    std::vector<FieldRange> all;
    for (int64_t c = 0; count_ > 0 && c < mean_.numel(); ++c) {
      all.push_back({smallest_[c].item<double>(), largest_[c].item<double>(),
                     mean_[c].item<double>(),
                     std::sqrt(squares_[c].item<double>() / count_)});
    }
    return all;
  }

 private:
  double count_ = 0;
  Tensor smallest_, largest_, mean_, squares_;
};

}  // namespace

std::vector<FieldRange> channel_ranges(const FieldSource& source) {
  ColumnRanges ranges;
  for_some_cases(source, "reading fields", [&](int64_t, const Tensor& some) {
    ranges.add(some.flatten(0, -2));
  });
  return ranges.ranges();
}

std::vector<FieldRange> parameter_ranges(const FieldSource& source) {
  ColumnRanges ranges;
  if (source.parameters().defined()) ranges.add(source.parameters());
  return ranges.ranges();
}

std::vector<FieldRange> constant_ranges(const FieldSource& source) {
  ColumnRanges ranges;
  if (source.layout().constants.empty()) return {};
  for (int64_t n = 0; n < source.cases(); ++n) {
    ranges.add(source.constants(n, 1).flatten(0, -2));
  }
  return ranges.ranges();
}

void write_fields(const FieldSource& source, const std::filesystem::path& out,
                  nlohmann::json note) {
  const auto& layout = source.layout();
  note.update(field_note(layout));
  if (source.has_split()) {
    const auto split = source.split(0);
    note["split"] = {split.train.size(), split.validation.size(),
                     split.test.size()};
  }
  if (written_format(out) != TensorFormat::kHdf5) {
    write_field_set(out, {.layout = layout,
                          .values = source.values(0, source.cases()),
                          .parameters = source.parameters(),
                          .note = std::move(note),
                          .constants = source.constants(0, source.cases())});
    return;
  }
  FieldWriter writer(out, layout, source.cases());
  const auto& numbers = source.parameters();
  for_some_cases(source, "writing fields", [&](int64_t n, const Tensor& some) {
    writer.write(
        n, some,
        numbers.defined() ? numbers.narrow(0, n, some.size(0)) : Tensor(),
        source.constants(n, some.size(0)));
  });
  writer.close(note.dump());
}

}  // namespace propagator::data
