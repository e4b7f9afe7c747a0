#include "propagator/core/config.h"

#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "propagator/core/files.h"

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

std::string place(const std::string& name, const YAML::Mark& mark) {
  return mark.is_null()
             ? name
             : fmt::format("{}:{}:{}", name, mark.line + 1, mark.column + 1);
}

// An item of a list: a value, or `place: equation`, which YAML takes for a
// map of one entry.
std::string item_text(const YAML::Node& item) {
  if (item.IsScalar()) return item.Scalar();
  if (!item.IsMap() || item.size() != 1 || !item.begin()->second.IsScalar()) {
    throw YAML::Exception(item.Mark(), "expected one line of text");
  }
  return fmt::format("{}: {}", item.begin()->first.Scalar(),
                     item.begin()->second.Scalar());
}

// No configuration nests deeper; one that does refers to itself.
constexpr int kDeepest = 16;

// Its items, a line each; an empty line is none.
Document::Entry list_entry(
    const YAML::Node& list,
    const std::function<std::string(const YAML::Node&)>& place_of) {
  Document::Entry entry{"", place_of(list), true};
  for (const auto& item : list) {
    const auto text = item_text(item);
    entry.text += text + "\n";
    if (!text.empty()) entry.items.push_back(place_of(item));
  }
  return entry;
}

void flatten(const YAML::Node& node, const std::string& path,
             const std::string& name, int depth,
             std::map<std::string, Document::Entry>& entries) {
  const auto fail = [&](const YAML::Mark& mark, const std::string& what) {
    throw ConfigError(path,
                      fmt::format("{}: {}{}", place(name, mark), path, what));
  };
  if (depth > kDeepest) fail(node.Mark(), ": sections nest too deeply");
  if (node.IsMap()) {
    for (const auto& item : node) {
      const auto key = item.first.as<std::string>();
      const auto full = path.empty() ? key : path + "." + key;
      if (entries.contains(full)) {
        throw ConfigError(full,
                          fmt::format("{}: {} is set twice",
                                      place(name, item.first.Mark()), full));
      }
      flatten(item.second, full, name, depth + 1, entries);
    }
  } else if (node.IsScalar()) {
    entries[path] = {node.Scalar(), place(name, node.Mark())};
  } else if (node.IsSequence()) {
    entries[path] = list_entry(
        node, [&](const YAML::Node& part) { return place(name, part.Mark()); });
  } else if (depth > 0) {
    fail(node.Mark(), ": expected a value");
  }
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

// The length of the sections that both begin with, "forecast/" or "model.".
size_t shared_sections(const std::string& a, const std::string& b) {
  const auto [end, _] = std::ranges::mismatch(a, b);
  const auto last = std::find_if(
      std::reverse_iterator(end), a.rend(),
      [](char character) { return character == '/' || character == '.'; });
  return static_cast<size_t>(last.base() - a.begin());
}

std::string leaf(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

// The key a user most likely meant: a list that was given as a section, a whole
// path that is nearly this one, or the same leaf in another section.
std::string suggestion(const Schema& schema, const std::string& path) {
  const auto* outer = schema.find(path.substr(0, path.rfind('.')));
  if (outer != nullptr && outer->type == Schema::kList) {
    return fmt::format("{} is a list ({}): give items a line each, after '- '",
                       outer->path, outer->meta.help);
  }
  std::vector<std::string> paths, same_leaf;
  for (const auto& field : schema.fields()) {
    paths.push_back(field.path);
    if (leaf(field.path) == leaf(path)) same_leaf.push_back(field.path);
  }
  return did_you_mean(
      path, paths,
      same_leaf.empty()
          ? "`propagator check CONFIG` prints every key"
          : fmt::format("did you mean {}?", fmt::join(same_leaf, " or ")));
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
  value = text;
}

void parse(const std::string& text, const Meta&,
           std::vector<std::string>& value) {
  value.clear();
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    if (end > from) value.push_back(text.substr(from, end - from));
    from = end + 1;
  }
}

std::string print(int64_t value) { return std::to_string(value); }
std::string print(double value) { return fmt::format("{}", value); }
std::string print(bool value) { return value ? "yes" : "no"; }
std::string print(const std::string& value) { return value; }
std::string print(const std::vector<std::string>& value) {
  return fmt::format("{}", fmt::join(value, "\n"));
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

Document Document::from_file(const std::filesystem::path& path) {
  return from_file(path, 0);
}

Document Document::from_file(const std::filesystem::path& path, int depth) {
  auto document = from_text(read_file(path), path.string());
  if (document.entries_.empty()) {
    throw ConfigError("", path.string() + ": the file has no keys",
                      "a short one says `task: forecast`");
  }
  const auto base = document.entries_.extract("from");
  if (base.empty()) return document;
  const auto& [text, where, list, items] = base.mapped();
  if (depth == kDeepest) {
    throw ConfigError("from",
                      fmt::format("{}: a file begins from itself", where));
  }
  const auto file = path.parent_path() / text;
  if (list || !std::filesystem::is_regular_file(file)) {
    throw ConfigError("from",
                      fmt::format("{}: no file {}", where, file.string()),
                      "a path beside this file");
  }
  auto inherited = from_file(file, depth + 1);
  // Ours first: merge leaves what is there.
  document.entries_.merge(inherited.entries_);
  return document;
}

Document Document::from_text(const std::string& yaml, const std::string& name) {
  Document document;
  document.name_ = name;
  try {
    const auto documents = YAML::LoadAll(yaml);
    if (documents.size() > 1) {
      throw ConfigError("", name + ": expected one document, found a '---'");
    }
    const auto root = documents.empty() ? YAML::Node() : documents[0];
    if (!root.IsMap() && !root.IsNull()) {
      throw ConfigError("", name + ": expected `key: value` lines");
    }
    flatten(root, "", name, 0, document.entries_);
  } catch (const YAML::Exception& error) {
    throw ConfigError(
        "", fmt::format("{}: {}", place(name, error.mark), error.msg),
        yaml.find('\t') != std::string::npos
            ? "YAML indents with blanks, not with tabs"
            : "give items of a list a line each, after '- ', and put a text "
              "with a ':' or a bracket in quotes");
  }
  return document;
}

void Document::override_with(const std::string& assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError(fmt::format("-s {}: expected key=value", assignment),
                     "for example -s schedule.lr=3e-4");
  }
  const auto path = assignment.substr(0, equals);
  const auto text = assignment.substr(equals + 1);
  const auto where = "-s " + assignment;
  if (!text.starts_with('[')) {
    set(path, text, where);
    return;
  }
  try {
    entries_[path] =
        list_entry(YAML::Load(text), [&](const YAML::Node&) { return where; });
  } catch (const YAML::Exception& error) {
    throw UsageError(fmt::format("{}: {}", where, error.msg),
                     "a list is written [a, b]");
  }
}

void Document::set(const std::string& path, const std::string& text,
                   const std::string& where) {
  entries_[path] = {text, where};
}

std::optional<std::string> Document::get(const std::string& path) const {
  const auto found = entries_.find(path);
  if (found == entries_.end()) return std::nullopt;
  return found->second.text;
}

void Document::apply_to(const Schema& schema) const {
  for (const auto& [path, entry] : entries_) {
    const Field* field = schema.find(path);
    if (field == nullptr) {
      throw ConfigError(path,
                        fmt::format("{}: unknown key {}", entry.where, path),
                        suggestion(schema, path));
    }
    if (entry.list && field->type != Schema::kList) {
      throw ConfigError(
          path, fmt::format("{}: {}: expected a single value, got a list",
                            entry.where, path));
    }
    try {
      field->set(entry.text);
    } catch (const std::invalid_argument& error) {
      throw ConfigError(path, fmt::format("{}: {}: {}, got '{}'", entry.where,
                                          path, error.what(), entry.text));
    }
  }
}

void Document::rethrow_with_place(const ConfigError& error) const {
  const auto found = entries_.find(error.key());
  auto where = fmt::format("{}: {} (default)", name_, error.key());
  if (found != entries_.end()) {
    const auto& entry = found->second;
    const bool has_item =
        error.item() >= 0 && error.item() < std::ssize(entry.items);
    where = fmt::format(
        "{}: {}",
        has_item ? entry.items[static_cast<size_t>(error.item())] : entry.where,
        error.key());
  }
  throw ConfigError(error.key(), where + ": " + error.what(), error.hint());
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
    text += fmt::format(
        "  {:<26} {}{}\n  {:<26}   {}{}, default {}\n", field.path,
        field.meta.help,
        field.meta.unit.empty() ? "" : " [" + field.meta.unit + "]", "",
        field.type, bounds_text(field.meta),
        field.default_text.empty() ? "(empty)" : field.default_text);
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
