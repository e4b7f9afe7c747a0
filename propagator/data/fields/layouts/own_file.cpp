#include <fmt/ranges.h>

#include <numeric>

#include "propagator/core/error.h"
#include "propagator/data/fields/layouts/field_content.h"

namespace propagator::data {
namespace {

// `split` of a note: how many cases, in order, train, validate and test.
std::optional<SplitIndices> split_of(const OpenFields& file,
                                     const nlohmann::json& note,
                                     int64_t cases) {
  const auto found = note.find("split");
  if (found == note.end()) return std::nullopt;
  SplitIndices split;
  const auto fail = [&] {
    throw DataError(
        fmt::format("{}: expected three counts of its {} cases "
                    "under 'split' of its note",
                    file.path, cases));
  };
  if (!found->is_array() || found->size() != 3) fail();
  int64_t next = 0;
  for (auto [part, n] :
       {std::pair(&split.train, 0), {&split.validation, 1}, {&split.test, 2}}) {
    const auto& count = (*found)[static_cast<size_t>(n)];
    if (!count.is_number_unsigned() || count.get<uint64_t>() == 0 ||
        count.get<uint64_t>() > static_cast<uint64_t>(cases - next)) {
      fail();
    }
    part->resize(count.get<size_t>());
    std::iota(part->begin(), part->end(), next);
    next += std::ssize(*part);
  }
  if (next != cases) fail();
  split.all.resize(static_cast<size_t>(cases));
  std::iota(split.all.begin(), split.all.end(), 0);
  return split;
}

}  // namespace

std::optional<FieldContent> read_own_fields(const OpenFields& file) {
  if (!FieldReader::is_field_file(*file.reader)) return std::nullopt;
  const FieldReader own(file.path);
  FieldContent content{.kind = "a file of fields of ours",
                       .layout = own.layout(),
                       .runs = {},
                       .parameters = own.parameters(),
                       .note = own.note(),
                       .boundaries_known = true};
  std::vector<int64_t> roles{kCaseAxis, kTimeAxis};
  for (int64_t d = 0; d < std::ssize(content.layout.axes); ++d) {
    roles.push_back(d);
  }
  roles.push_back(kChannelAxis);
  content.runs.push_back({own.cases(), {file.piece("fields", roles)}});
  if (auto& layout = content.layout; !layout.constants.empty()) {
    std::erase(roles, kTimeAxis);
    content.runs[0].pieces.push_back(file.piece("constants", roles));
    layout.channels.insert(layout.channels.end(), layout.constants.begin(),
                           layout.constants.end());
  }
  content.split = split_of(file, content.note, own.cases());
  return content;
}

}  // namespace propagator::data
