#include "propagator/data/fields/layouts/field_content.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"

namespace propagator::data {
namespace {

using torch::Tensor;

constexpr size_t kLongestName = 64;

[[noreturn]] void fail_content(const std::string& path,
                               const std::string& what) {
  throw DataError(fmt::format("{}: {}", path, what));
}

Tensor read_piece(const FieldPiece& piece, const std::vector<int64_t>& nodes,
                  int64_t begin, int64_t count, int64_t first, int64_t frames) {
  std::vector<int64_t> start(piece.shape.size(), 0), extent = piece.shape;
  for (size_t d = 0; d < piece.roles.size(); ++d) {
    if (piece.roles[d] == kCaseAxis) start[d] = begin, extent[d] = count;
    if (piece.roles[d] == kTimeAxis) start[d] = first, extent[d] = frames;
  }
  std::vector<int64_t> order, with_ones, full;
  const auto take = [&](int64_t role, int64_t size) {
    const auto found = std::ranges::find(piece.roles, role);
    const bool there = found != piece.roles.end();
    if (there) order.push_back(found - piece.roles.begin());
    with_ones.push_back(there ? size : 1);
    full.push_back(size);
  };
  take(kCaseAxis, count);
  take(kTimeAxis, frames);
  for (size_t d = 0; d < nodes.size(); ++d) {
    take(static_cast<int64_t>(d), nodes[d]);
  }
  for (size_t d = 0; d < piece.roles.size(); ++d) {
    if (piece.roles[d] == kChannelAxis) {
      order.push_back(static_cast<int64_t>(d));
    }
  }
  with_ones.push_back(piece.channels());
  full.push_back(piece.channels());
  return piece.reader->block(piece.array, start, extent)
      .to(torch::kFloat32)
      .permute(order)
      .reshape(with_ones)
      .expand(full);
}

// (count, frames, nodes…, C)
Tensor read_all_pieces(const std::vector<FieldPiece>& pieces,
                       const std::vector<int64_t>& nodes, int64_t begin,
                       int64_t count, int64_t first, int64_t frames) {
  std::vector<Tensor> parts;
  for (const auto& piece : pieces) {
    parts.push_back(read_piece(piece, nodes, begin, count, first, frames));
  }
  return parts.size() == 1 ? parts[0] : torch::cat(parts, -1);
}

void check_names(const std::string& path, const char* what,
                 const std::vector<std::string>& names) {
  std::set<std::string> known;
  for (const auto& name : names) {
    if (name.empty() || name.size() > kLongestName || !is_plain_text(name)) {
      fail_content(path, fmt::format("expected plain names of {}, got '{}'",
                                     what, plain_text(name)));
    }
    if (!known.insert(name).second) {
      fail_content(path, fmt::format("{} has '{}' twice", what, name));
    }
  }
}

void check_piece(const std::string& path, const FieldContent& content,
                 const FieldRun& run, const FieldPiece& piece) {
  const auto nodes = content.nodes();
  for (size_t d = 0; d < piece.shape.size(); ++d) {
    const int64_t role = piece.roles[d];
    if (role == kChannelAxis) continue;
    const int64_t expected = role == kCaseAxis ? run.cases
                             : role == kTimeAxis
                                 ? content.layout.times.numel()
                                 : nodes[static_cast<size_t>(role)];
    if (piece.shape[d] == expected) continue;
    fail_content(path,
                 fmt::format("expected {} along axis {} of '{}' ({}), got {}",
                             expected, d, plain_text(piece.array),
                             fmt::join(piece.shape, ", "), piece.shape[d]));
  }
}

void check_pieces(const std::string& path, const FieldContent& content,
                  const FieldRun& run, const std::vector<FieldPiece>& pieces,
                  size_t expected, const char* what) {
  int64_t channels = 0;
  for (const auto& piece : pieces) {
    check_piece(path, content, run, piece);
    channels += piece.channels();
  }
  if (channels == static_cast<int64_t>(expected)) return;
  fail_content(path,
               fmt::format("expected {} {}, got {}", expected, what, channels));
}

}  // namespace

int64_t FieldPiece::channels() const {
  int64_t channels = 1;
  for (size_t d = 0; d < roles.size(); ++d) {
    if (roles[d] == kChannelAxis) channels *= shape[d];
  }
  return channels;
}

bool FieldPiece::is_constant() const {
  return std::ranges::count(roles, kTimeAxis) == 0;
}

int64_t FieldContent::cases() const {
  int64_t cases = 0;
  for (const auto& run : runs) cases += run.cases;
  return cases;
}

std::vector<int64_t> FieldContent::nodes() const {
  std::vector<int64_t> nodes;
  for (const auto& axis : layout.axes) nodes.push_back(axis.at.numel());
  return nodes;
}

Tensor read_run(const FieldRun& run, const std::vector<int64_t>& nodes,
                int64_t begin, int64_t count, int64_t first, int64_t frames) {
  return read_all_pieces(run.pieces, nodes, begin, count, first, frames);
}

Tensor read_constants(const FieldRun& run, const std::vector<int64_t>& nodes,
                      int64_t begin, int64_t count) {
  return read_all_pieces(run.constants, nodes, begin, count, 0, 1).select(1, 0);
}

void check_content(const std::string& path, const FieldContent& content) {
  std::vector<std::string> axes;
  for (const auto& axis : content.layout.axes) axes.push_back(axis.name);
  check_names(path, "axes", axes);
  check_names(path, "channels", content.layout.channels);
  check_names(path, "numbers of each case", content.layout.parameters);
  // A forecast is given both by name, beside `fields`.
  auto told = content.layout.constants;
  told.insert(told.end(), content.layout.parameters.begin(),
              content.layout.parameters.end());
  if (!content.layout.constants.empty()) told.emplace_back("fields");
  check_names(path, "what a forecast is told", told);
  if (axes.empty() || axes.size() > 3) {
    fail_content(path, fmt::format("expected one to three axes of space, got "
                                   "{}",
                                   axes.size()));
  }
  const auto nodes = content.nodes();
  if (content.cases() == 0 || content.layout.times.numel() == 0 ||
      std::ranges::count(nodes, 0) > 0) {
    fail_content(path, "it has no frames");
  }
  for (const auto& run : content.runs) {
    if (content.layout.channels.empty()) fail_content(path, "it has no fields");
    check_pieces(path, content, run, run.pieces, content.layout.channels.size(),
                 "channels");
    check_pieces(path, content, run, run.constants,
                 content.layout.constants.size(), "constant inputs");
  }
  const auto& numbers = content.parameters;
  if (numbers.defined() && !torch::isfinite(numbers).all().item<bool>()) {
    fail_content(path, "some numbers of its cases are not finite");
  }
}

Tensor rising_places(const TensorReader& reader, const std::string& name,
                     int64_t count) {
  const auto& shapes = reader.shapes();
  const auto found = shapes.find(name);
  if (found == shapes.end() || found->second.empty()) return {};
  auto extent = found->second;
  std::vector<int64_t> start(extent.size(), 0);
  // (n), (1, n), (n, 1), or (N, n) with one row for each case.
  const bool column = extent.size() == 2 && extent[1] == 1;
  const size_t along = column ? 0 : extent.size() - 1;
  for (size_t d = 0; d < extent.size(); ++d) {
    if (d != along) extent[d] = std::min<int64_t>(extent[d], 1);
  }
  if (extent[along] != count && extent[along] != count + 1) return {};
  extent[along] = count;
  const auto at =
      reader.block(name, start, extent).to(torch::kFloat64).flatten();
  const bool rises = at.numel() == count &&
                     torch::isfinite(at).all().item<bool>() &&
                     (count < 2 || (at.diff() > 0).all().item<bool>());
  return rises ? at.clone() : Tensor();
}

Tensor places_or_numbers(const TensorReader& reader, const std::string& name,
                         int64_t count, FieldContent& content) {
  const auto at = rising_places(reader, name, count);
  if (at.defined()) return at;
  content.remarks.push_back(
      fmt::format("'{}' has no {} numbers that rise: counted instead",
                  plain_text(name), count));
  return torch::arange(count, torch::kFloat64);
}

FieldPiece OpenFields::piece(const std::string& array,
                             std::vector<int64_t> roles) const {
  const auto shape = reader->shape(array);
  if (shape.size() != roles.size()) {
    fail_content(path,
                 fmt::format("expected {} axes of '{}', got ({})", roles.size(),
                             plain_text(array), fmt::join(shape, ", ")));
  }
  return {reader, array, shape, std::move(roles)};
}

}  // namespace propagator::data
