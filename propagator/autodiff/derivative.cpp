#include "propagator/autodiff/derivative.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace propagator::autodiff {

int64_t Derivative::order() const {
  return std::accumulate(orders.begin(), orders.end(), int64_t{0});
}

std::string Derivative::text(const Symbols& symbols) const {
  const auto& name = symbols.fields.at(static_cast<size_t>(field));
  if (order() == 0) return name;
  std::string brief = name + "_", full = name;
  for (size_t i = 0; i < orders.size(); ++i) {
    for (int64_t k = 0; k < orders[i]; ++k) brief += symbols.variables.at(i);
    if (orders[i] == 1) {
      full = fmt::format("d({}, {})", full, symbols.variables.at(i));
    } else if (orders[i] > 1) {
      full = fmt::format("d({}, {}, {})", full, symbols.variables.at(i),
                         orders[i]);
    }
  }
  const bool taken = std::ranges::count(symbols.variables, brief) > 0 ||
                     symbols.constants.contains(brief);
  // A formula on an edge knows more names than fields depend on.
  auto meant = *this;
  meant.orders.resize(symbols.variables.size(), 0);
  return !taken && derivative_named(brief, symbols) == meant ? brief : full;
}

VariableSplit split_into_variables(std::string_view text,
                                   const std::vector<std::string>& variables) {
  // ends_well[i]: what follows byte i can be read to the end.
  std::vector<bool> ends_well(text.size() + 1, false);
  ends_well.back() = true;
  const auto fits = [&](size_t at, const std::string& name) {
    return !name.empty() && text.substr(at).starts_with(name);
  };
  for (size_t at = text.size(); at-- > 0;) {
    for (const auto& name : variables) {
      if (fits(at, name) && ends_well[at + name.size()]) ends_well[at] = true;
    }
  }
  VariableSplit split;
  if (text.empty() || !ends_well[0]) {
    std::vector<bool> reached(text.size() + 1, false);
    reached[0] = true;
    for (size_t at = 0; at < text.size(); ++at) {
      if (!reached[at]) continue;
      split.read = at;
      for (const auto& name : variables) {
        if (fits(at, name)) reached[at + name.size()] = true;
      }
    }
    return split;
  }
  split.orders.emplace(variables.size(), 0);
  while (split.read < text.size()) {
    size_t best = variables.size();
    for (size_t i = 0; i < variables.size(); ++i) {
      if (fits(split.read, variables[i]) &&
          ends_well[split.read + variables[i].size()] &&
          (best == variables.size() ||
           variables[i].size() > variables[best].size())) {
        best = i;
      }
    }
    ++(*split.orders)[best];
    split.read += variables[best].size();
  }
  return split;
}

std::optional<Derivative> derivative_named(const std::string& name,
                                           const Symbols& symbols) {
  std::optional<Derivative> found;
  size_t longest = 0;  // of fields u and u_a, u_a_x is a derivative of u_a
  for (size_t i = 0; i < symbols.fields.size(); ++i) {
    const auto& field = symbols.fields[i];
    const auto index = static_cast<int64_t>(i);
    if (name == field) {
      return Derivative{index,
                        std::vector<int64_t>(symbols.variables.size(), 0)};
    }
    if (field.size() < longest || !name.starts_with(field + "_")) continue;
    const auto rest = std::string_view(name).substr(field.size() + 1);
    auto split = split_into_variables(rest, symbols.variables);
    if (!split.orders) continue;
    found = Derivative{index, std::move(*split.orders)};
    longest = field.size();
  }
  return found;
}

}  // namespace propagator::autodiff
