#include "propagator/core/config.h"

#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "propagator/core/plain_text.h"

namespace propagator::config {
namespace {

std::string bounds_text(const Meta& meta) {
  const bool low = std::isfinite(meta.min), high = std::isfinite(meta.max);
  if (low && high) return fmt::format(" from {:g} to {:g}", meta.min, meta.max);
  if (low) return fmt::format(" of at least {:g}", meta.min);
  if (high) return fmt::format(" of at most {:g}", meta.max);
  return "";
}

template <class Number>
void parse_number(const std::string& text, const Meta& meta, const char* noun,
                  Number& value) {
  Number parsed{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, parsed);
  const bool read = error == std::errc() && rest == end && !text.empty();
  const auto number = static_cast<double>(parsed);
  if (!read || !std::isfinite(number) || number < meta.min ||
      number > meta.max) {
    throw std::invalid_argument("expected " + std::string(noun) +
                                bounds_text(meta));
  }
  value = parsed;
}

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t keep = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, keep});
    }
  }
  return row[b.size()];
}

void expect_plain(const std::string& text, std::string_view kept) {
  if (is_plain_text(text, kept)) return;
  throw std::invalid_argument(
      "expected text in UTF-8 without control characters");
}

// The length of the sections that both begin with, "forecast/" or "model.".
size_t shared_sections(const std::string& a, const std::string& b) {
  const auto [end, _] = std::ranges::mismatch(a, b);
  const auto last = std::find_if(
      std::reverse_iterator(end), a.rend(),
      [](char character) { return character == '/' || character == '.'; });
  return static_cast<size_t>(last.base() - a.begin());
}

}  // namespace

void parse(const std::string& text, const Meta& meta, int64_t& value) {
  parse_number(text, meta, "a whole number", value);
}

void parse(const std::string& text, const Meta& meta, double& value) {
  parse_number(text, meta, "a number", value);
}

void parse(const std::string& text, const Meta&, bool& value) {
  if (text == "yes" || text == "true" || text == "on") {
    value = true;
  } else if (text == "no" || text == "false" || text == "off") {
    value = false;
  } else {
    throw std::invalid_argument("expected yes or no");
  }
}

void parse(const std::string& text, const Meta&, std::string& value) {
  expect_plain(text, /*kept=*/"");
  value = text;
}

void parse(const std::string& text, const Meta&,
           std::vector<std::string>& value) {
  expect_plain(text, /*kept=*/"\n\t");
  value = items_of(text);
}

std::vector<std::string> items_of(const std::string& text) {
  std::vector<std::string> items;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    if (end > from) items.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return items;
}

std::string print(int64_t value) { return std::to_string(value); }
std::string print(double value) { return fmt::format("{}", value); }
std::string print(bool value) { return value ? "yes" : "no"; }
std::string print(const std::string& value) { return value; }
std::string print(const std::vector<std::string>& value) {
  return fmt::format("{}", fmt::join(value, "\n"));
}

bool resume_may_change(Role role) {
  switch (role) {
    case Role::kTraining:
    case Role::kLoss:
    case Role::kEvaluation:
    case Role::kReport:
    case Role::kCompute:
    case Role::kPlace:
      return true;
    default:
      return false;
  }
}

bool evaluation_may_change(Role role) {
  switch (role) {
    case Role::kInput:
    case Role::kEvaluation:
    case Role::kReport:
    case Role::kCompute:
    case Role::kPlace:
      return true;
    default:
      return false;
  }
}

bool is_hashed(Role role) {
  return role != Role::kPlace && role != Role::kReport && role != Role::kLabel;
}

std::string Field::hash_text() const {
  const auto& name = meta.formerly.empty() ? path : meta.formerly;
  const auto value = get();
  const auto former = std::ranges::find(
      former_values, value, &std::pair<const std::string, std::string>::second);
  return fmt::format("{}={}", name,
                     former == former_values.end() ? value : former->first);
}

const Field* Schema::find(const std::string& path) const {
  const auto found = std::ranges::find(fields_, path, &Field::path);
  return found == fields_.end() ? nullptr : &*found;
}

void Schema::set_default(const std::string& path, const std::string& text) {
  const auto found = std::ranges::find(fields_, path, &Field::path);
  if (found == fields_.end()) {
    throw std::invalid_argument("[config] no field " + path);
  }
  found->set(text);
  found->default_text = text;
}

namespace {

// Quotes a text that would not read back as itself.
std::string scalar_yaml(const std::string& text) {
  YAML::Emitter scalar;
  scalar << text;
  return scalar.c_str();
}

std::string list_yaml(const std::string& text) {
  std::vector<std::string> items;
  parse(text, {}, items);
  YAML::Emitter list;
  list << YAML::Flow << YAML::BeginSeq;
  for (const auto& item : items) list << YAML::DoubleQuoted << item;
  list << YAML::EndSeq;
  return list.c_str();
}

}  // namespace

std::string to_yaml(const Schema& schema, bool with_help) {
  std::string yaml;
  std::vector<std::string> open;  // the sections we are inside of
  for (const auto& field : schema.fields()) {
    std::vector<std::string> parts;
    for (size_t from = 0; from <= field.path.size();) {
      const size_t dot =
          std::min(field.path.find('.', from), field.path.size());
      parts.push_back(field.path.substr(from, dot - from));
      from = dot + 1;
    }
    size_t depth = 0;
    while (depth < open.size() && depth + 1 < parts.size() &&
           open[depth] == parts[depth]) {
      ++depth;
    }
    open.resize(depth);
    for (; depth + 1 < parts.size(); ++depth) {
      yaml += std::string(2 * depth, ' ') + parts[depth] + ":\n";
      open.push_back(parts[depth]);
    }
    std::string line =
        fmt::format("{}{}: {}", std::string(2 * depth, ' '), parts.back(),
                    field.type == Schema::kList ? list_yaml(field.get())
                                                : scalar_yaml(field.get()));
    if (with_help) {
      const auto& meta = field.meta;
      line = fmt::format("{:<34} # {}{}", line, meta.help,
                         meta.unit.empty() ? "" : " [" + meta.unit + "]");
    }
    yaml += line + "\n";
  }
  return yaml;
}

std::string to_help(const Schema& schema) {
  std::string text;
  for (const auto& field : schema.fields()) {
    text +=
        fmt::format("  {:<26} {}{}\n  {:<26}   {}{}, default {}, role {}\n",
                    field.path, field.meta.help,
                    field.meta.unit.empty() ? "" : " [" + field.meta.unit + "]",
                    "", field.type, bounds_text(field.meta),
                    field.default_text.empty() ? "(empty)" : field.default_text,
                    name_of(field.role));
  }
  return text;
}

std::string did_you_mean(const std::string& word,
                         std::span<const std::string> candidates,
                         const std::string& otherwise) {
  const auto near = nearest(word, candidates);
  return near ? fmt::format("did you mean {}?", *near) : otherwise;
}

std::optional<std::string> nearest(const std::string& word,
                                   std::span<const std::string> candidates) {
  std::optional<std::string> best;
  size_t best_distance = 0;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    const size_t own = word.size() - shared_sections(word, candidate);
    const bool is_near = distance <= std::max<size_t>(2, own / 3);
    if (is_near && (!best || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace propagator::config
