#include "propagator/data/plate_dataset.h"

#include "propagator/core/error.h"
#include "propagator/core/json.h"
#include "propagator/core/log.h"
#include "propagator/core/progress.h"
#include "propagator/core/ranks.h"
#include "propagator/kernels/finite.h"

namespace propagator::data {
namespace {

constexpr int64_t kCasesAtOnce = 64;

// Files of before the note named the equation were made by our solver alone.
bool says_heat(const std::string& note) {
  const auto content = parse_json(note);
  if (!content.is_object()) return false;
  const auto says = [&](const char* key, const char* value) {
    return content.contains(key) && content.at(key) == value;
  };
  return says("equation", "heat") ||
         says("made_by", "propagator data generate");
}

void expect_shape(const TensorReader& reader, const std::string& path,
                  const std::string& name,
                  const std::vector<int64_t>& expected) {
  const auto got = reader.shape(name);
  if (got != expected) {
    throw DataError(
        fmt::format("{}: expected '{}' of shape ({}), got ({})", path, name,
                    fmt::join(expected, ", "), fmt::join(got, ", ")),
        "make plate.rows, plate.cols and plate.frames those of the file; "
        "`propagator data info` prints them");
  }
}

}  // namespace

void PlateDataOptions::describe(config::Schema& s) {
  s.field("cases", cases,
          {.help = "how many plates are solved; a file has its own number",
           .min = 10});
  s.field("file", file,
          {.help = "read the histories from this .h5 or .npz file instead",
           .role = config::Role::kInput,
           .file = true});
  s.field("storage", storage,
          {.help = "memory: keep all histories; stream: make each batch when "
                   "it is used; auto: memory if a quarter of it suffices",
           .role = config::Role::kCompute,
           .memory = true,
           .for_pages = "stream"});
}

PlateDataset::PlateDataset(const physics::HeatPlateOptions& plate,
                           const PlateDataOptions& options, int64_t seed,
                           const Runtime& runtime)
    : plate_(plate), runtime_(runtime) {
  if (options.file.empty()) {
    cases_ = physics::draw_cases(plate, seed, 0, options.cases)
                 .to(runtime.options());
  } else {
    open_file(options.file);
  }
  split_ = make_split(cases_.size(), seed);
  for (const auto& [split, name] : config::Names<Split>::all) {
    cases_of_[split] =
        torch::tensor(split_.of(split), torch::kInt64).to(runtime.device);
  }
  const bool keep = options.storage == Storage::kMemory ||
                    (options.storage == Storage::kAuto &&
                     bytes() <= memory_bytes(runtime) / 4);
  if (keep) keep_in_memory();
  log::info("{} {} of {} x {} nodes, {} frames ({:.2f} GB, {})", cases_.size(),
            heat_ ? "plates" : "cases", plate.rows, plate.cols, plate.frames,
            static_cast<double>(bytes()) * 1e-9,
            keep ? "in memory" : "streamed");
}

// One positive number of each case; a file that is not of heat may lack it.
torch::Tensor PlateDataset::each(const std::string& name,
                                 const std::string& path, int64_t cases,
                                 double otherwise) const {
  if (!heat_ && !reader_->shapes().contains(name)) {
    return torch::full({cases}, otherwise, torch::kFloat64);
  }
  expect_shape(*reader_, path, name, {cases});
  const auto values = reader_->all(name);
  const auto rounded = values.to(runtime_.dtype());
  if (!(torch::isfinite(rounded) & (rounded > 0)).all().item<bool>()) {
    throw DataError(fmt::format(
        "{}: expected every {} to be positive and finite", path, name));
  }
  return values;
}

void PlateDataset::open_file(const std::string& path) {
  reader_ = TensorReader::open(path);
  const auto shape = reader_->shape("fields");
  const int64_t cases = shape.empty() ? 0 : shape[0];
  expect_shape(*reader_, path, "fields",
               {cases, plate_.frames, plate_.rows, plate_.cols});
  if (cases < kFewestCases) {
    throw DataError(fmt::format(
        "{}: expected at least {} cases, for a 70/20/10 split, got {}", path,
        kFewestCases, cases));
  }
  heat_ = says_heat(reader_->note());
  has_alpha_ = heat_ || reader_->shapes().contains("alpha");
  const auto alpha = each("alpha", path, cases, 0);
  const auto dt = each("dt", path, cases, 1);
  cases_.alpha = alpha.to(runtime_.options());
  cases_.dt = dt.to(runtime_.options());
  // Each case with a weight of its own: their order counts.
  const auto weights = torch::arange(1, cases + 1, torch::kFloat64);
  const auto weighted = [&](const torch::Tensor& each, int64_t from) {
    return torch::dot(each.to(torch::kCPU, torch::kFloat64),
                      weights.narrow(0, from, each.size(0)));
  };
  auto sum = torch::zeros({}, torch::kFloat64);
  Progress progress("checking " + path, cases);
  for (int64_t n = 0; n < cases; n += kCasesAtOnce) {
    const int64_t count = std::min(kCasesAtOnce, cases - n);
    const auto rows = reader_->rows("fields", n, count);
    check_finite(rows.to(runtime_.dtype()), n, path);
    sum += weighted(rows.to(torch::kFloat64).square().sum({1, 2, 3}), n);
    progress.update(n + count);
  }
  fingerprint_ = torch::stack({sum, weighted(alpha, 0), weighted(dt, 0)});
}

void PlateDataset::keep_in_memory() {
  const int64_t cases = cases_.size();
  auto fields = torch::empty({cases, plate_.frames, plate_.rows, plate_.cols},
                             runtime_.options());
  Progress progress(reader_ ? "reading plates" : "solving plates", cases);
  // Ranks share what is solved.
  const auto all = (cases + kCasesAtOnce - 1) / kCasesAtOnce;
  const auto own = reader_ ? Share{0, all} : own_share(all);
  for (int64_t n = own.begin * kCasesAtOnce;
       n < std::min(own.end * kCasesAtOnce, cases); n += kCasesAtOnce) {
    const int64_t count = std::min(kCasesAtOnce, cases - n);
    // A file is read in one piece, not case by case.
    const auto part =
        reader_ ? reader_->rows("fields", n, count)
                : histories(torch::arange(n, n + count, torch::kInt64));
    fields.narrow(0, n, count).copy_(part);
    progress.update(n + count);
  }
  if (!reader_) exchange_rows(fields, kCasesAtOnce);
  fields_ = fields;
}

int64_t PlateDataset::bytes() const {
  return cases_.size() * plate_.frames * plate_.rows * plate_.cols *
         static_cast<int64_t>(c10::elementSize(runtime_.dtype()));
}

int64_t PlateDataset::size(Split split) const {
  return static_cast<int64_t>(split_.of(split).size());
}

torch::Tensor PlateDataset::histories(const torch::Tensor& cases) const {
  if (!reader_) {
    return physics::solve(plate_, cases_.select(cases.to(runtime_.device)));
  }
  const auto list = cases.cpu();
  std::vector<torch::Tensor> rows;
  for (int64_t n = 0; n < list.numel(); ++n) {
    rows.push_back(reader_->rows("fields", list[n].item<int64_t>(), 1));
  }
  return torch::cat(rows).to(runtime_.options());
}

PlateBatch PlateDataset::batch(Split split,
                               const torch::Tensor& positions) const {
  const auto indices =
      cases_of_.at(split).index_select(0, positions.to(runtime_.device));
  return {in_memory() ? fields_.index_select(0, indices) : histories(indices),
          cases_.alpha.index_select(0, indices),
          cases_.dt.index_select(0, indices)};
}

PlateBatch PlateDataset::range(Split split, int64_t begin,
                               int64_t count) const {
  const int64_t end = std::min(begin + count, size(split));
  return batch(split, torch::arange(begin, end, torch::kInt64));
}

void write_plate_file(const std::filesystem::path& path,
                      const physics::HeatPlateOptions& plate, int64_t cases,
                      int64_t seed, const Runtime& runtime,
                      const std::string& note) {
  const auto writer = TensorWriter::create(
      path, runtime.dtype(),
      {{"fields", {cases, plate.frames, plate.rows, plate.cols}},
       {"alpha", {cases}},
       {"dt", {cases}}},
      note);
  Progress progress("writing plates", cases);
  for (int64_t n = 0; n < cases; n += kCasesAtOnce) {
    const int64_t count = std::min(kCasesAtOnce, cases - n);
    const auto some =
        physics::draw_cases(plate, seed, n, count).to(runtime.options());
    writer->write_rows("fields", n, physics::solve(plate, some));
    writer->write_rows("alpha", n, some.alpha);
    writer->write_rows("dt", n, some.dt);
    progress.update(n + count);
  }
  writer->close();
}

void check_finite(const torch::Tensor& fields, int64_t first_case,
                  const std::string& source) {
  if (kernels::all_finite(fields)) return;
  const auto bad = torch::logical_not(torch::isfinite(fields)).nonzero()[0];
  throw DataError(fmt::format(
      "{}: case {}, frame {}, node ({}, {}) is not a finite number", source,
      first_case + bad[0].item<int64_t>(), bad[1].item<int64_t>(),
      bad[2].item<int64_t>(), bad[3].item<int64_t>()));
}

}  // namespace propagator::data
