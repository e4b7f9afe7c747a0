#include <fmt/ranges.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/fields/field_source.h"
#include "propagator/data/fields/layouts/field_content.h"

// Fields that do not change in time: inputs, which are not forecast.

namespace propagator::data {
namespace {

using Names = std::vector<std::string>;

// A piece without time, as a file calls it, and its numbers at a node.
struct Constant {
  std::string array, name;  // "t0_fields/mask", "mask"
  Names components;
  bool chosen = false;
};

// A name of the piece as a whole.
bool is_called(const Constant& constant, const std::string& name) {
  return name == constant.array || name == constant.name;
}

std::vector<Constant> constants_of(const FieldContent& content) {
  std::vector<Constant> all;
  auto next = content.layout.channels.begin();
  for (const auto& piece : content.runs.front().pieces) {
    const auto end = next + piece.channels();
    if (piece.is_constant()) {
      const auto name = piece.array.substr(piece.array.rfind('/') + 1);
      all.push_back({piece.array, name, Names(next, end)});
    }
    next = end;
  }
  return all;
}

Names names_of(const std::vector<Constant>& constants, bool chosen) {
  Names names;
  for (const auto& constant : constants) {
    if (constant.chosen != chosen) continue;
    names.insert(names.end(), constant.components.begin(),
                 constant.components.end());
  }
  return names;
}

// The whole piece by its name, or all its components by theirs.
void choose(std::vector<Constant>& constants, const Names& wanted) {
  for (const auto& name : wanted) {
    const auto found = std::ranges::find_if(constants, [&](const auto& one) {
      return is_called(one, name) ||
             std::ranges::count(one.components, name) > 0;
    });
    if (found == constants.end()) {
      const auto there = names_of(constants, false);
      throw ConfigError(
          "data.constants",
          fmt::format("the file has no {} that does not change in time",
                      plain_text(name)),
          config::did_you_mean(
              name, there,
              there.empty()
                  ? std::string("it has no such field")
                  : fmt::format("it has {}", fmt::join(there, ", "))));
    }
    found->chosen = true;
  }
  for (const auto& constant : constants) {
    const auto is_wanted = [&](const std::string& name) {
      return std::ranges::count(wanted, name) > 0;
    };
    const bool whole = std::ranges::any_of(
        wanted, [&](const auto& name) { return is_called(constant, name); });
    if (!constant.chosen || whole ||
        std::ranges::all_of(constant.components, is_wanted)) {
      continue;
    }
    throw ConfigError("data.constants",
                      fmt::format("{} has {}: name it, or all of them",
                                  plain_text(constant.name),
                                  fmt::join(constant.components, ", ")));
  }
}

// Pieces of all runs, and the names of their numbers, to their places.
void part(FieldContent& content, const std::vector<Constant>& constants) {
  auto& layout = content.layout;
  const auto names = std::exchange(layout.channels, {});
  auto next = names.begin();
  for (const auto& piece : content.runs.front().pieces) {
    const auto end = next + piece.channels();
    if (!piece.is_constant()) {
      layout.channels.insert(layout.channels.end(), next, end);
    }
    next = end;
  }
  layout.constants = names_of(constants, true);
  for (auto& run : content.runs) {
    auto pieces = std::exchange(run.pieces, {});
    for (auto& piece : pieces) {
      if (!piece.is_constant()) {
        run.pieces.push_back(std::move(piece));
        continue;
      }
      const bool chosen = std::ranges::any_of(constants, [&](const auto& one) {
        return one.chosen && one.array == piece.array;
      });
      if (chosen) run.constants.push_back(std::move(piece));
    }
  }
}

}  // namespace

bool finds_constants(const FieldChoices& choices) {
  return choices.constants.empty() && choices.channels.empty();
}

void part_constants(FieldContent& content, const FieldChoices& choices) {
  auto constants = constants_of(content);
  const bool nothing_said = choices.constants.empty();
  // As older programs had them.
  if (nothing_said && !constants.empty() &&
      choices.channels.size() == content.layout.channels.size()) {
    content.remarks.push_back(
        fmt::format("constant in time, and channels that stay as they are: {}",
                    fmt::join(names_of(constants, false), ", ")));
    return;
  }
  if (finds_constants(choices)) {
    for (auto& constant : constants) constant.chosen = true;
  } else if (!nothing_said && choices.constants != Names{kNoConstants}) {
    choose(constants, choices.constants);
  }
  const auto left = names_of(constants, false);
  if (!left.empty()) {
    content.remarks.push_back(
        fmt::format("constant in time, and not read: {} (data.constants names "
                    "inputs)",
                    fmt::join(left, ", ")));
  }
  part(content, constants);
}

}  // namespace propagator::data
