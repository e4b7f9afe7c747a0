#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "propagator/core/config.h"
#include "propagator/core/files.h"

namespace propagator::config {
namespace {

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

// Nor has one as many keys; aliases of aliases have more than a memory holds.
constexpr int kMostNodes = 10'000;

// Layers of entries that no file has.
constexpr int kCommandLine = 1;
constexpr int kBeneath = -kDeepest - 1;

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

// The nodes of a file as entries by path.
class Flattened {
 public:
  explicit Flattened(const std::string& name) : name_(name) {}

  void add(const YAML::Node& node, const std::string& path, int depth) {
    if (depth > kDeepest) fail(node, path, "sections nest too deeply");
    if (++nodes_ > kMostNodes) fail(node, path, "there are too many keys");
    if (node.IsMap()) {
      for (const auto& item : node) {
        const auto key = item.first.as<std::string>();
        const auto full = path.empty() ? key : path + "." + key;
        if (entries.contains(full)) {
          throw ConfigError(full,
                            fmt::format("{}: {} is set twice",
                                        place(name_, item.first.Mark()), full));
        }
        add(item.second, full, depth + 1);
      }
    } else if (node.IsScalar()) {
      entries[path] = {node.Scalar(), place(name_, node.Mark())};
    } else if (node.IsSequence()) {
      entries[path] = list_entry(node, [&](const YAML::Node& part) {
        return place(name_, part.Mark());
      });
    } else if (depth > 0) {
      fail(node, path, "expected a value");
    }
  }

  std::map<std::string, Document::Entry> entries;

 private:
  [[noreturn]] void fail(const YAML::Node& node, const std::string& path,
                         const char* what) const {
    throw ConfigError(
        path, fmt::format("{}: {}: {}", place(name_, node.Mark()), path, what));
  }

  const std::string& name_;
  int nodes_ = 0;
};

// Hears the events of a parser and does nothing.
class Deaf : public YAML::EventHandler {
  using Mark = YAML::Mark;
  using Text = std::string;
  using Anchor = YAML::anchor_t;
  using Style = YAML::EmitterStyle::value;

  void OnDocumentStart(const Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const Mark&, Anchor) override {}
  void OnAlias(const Mark&, Anchor) override {}
  void OnScalar(const Mark&, const Text&, Anchor, const Text&) override {}
  void OnSequenceStart(const Mark&, const Text&, Anchor, Style) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const Mark&, const Text&, Anchor, Style) override {}
  void OnMapEnd() override {}
};

// It looks no further than to the second one: in some damaged texts yaml-cpp
// 0.7 finds documents without end.
bool has_several_documents(const std::string& yaml) {
  std::istringstream stream(yaml);
  YAML::Parser parser(stream);
  Deaf handler;
  return parser.HandleNextDocument(handler) &&
         parser.HandleNextDocument(handler);
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

// Files, one on each line, with the folder in front of those that are there.
std::string found_from(const std::filesystem::path& folder,
                       const std::string& text) {
  auto files = items_of(text);
  for (auto& file : files) {
    std::error_code ignored;  // such as of a name that is too long
    const auto beside = folder / file;
    if (std::filesystem::exists(beside, ignored)) file = beside.string();
  }
  return print(files);
}

}  // namespace

Document Document::from_file(const std::filesystem::path& path) {
  return from_file(path, 0);
}

Document Document::from_file(const std::filesystem::path& path, int depth) {
  auto document = from_text(read_file(path), path.string());
  for (auto& [key, entry] : document.entries_) {
    entry.layer = -depth;
    entry.folder = path.parent_path();
  }
  if (document.entries_.empty()) {
    throw ConfigError("", path.string() + ": the file has no keys",
                      "a short one says `task: forecast`");
  }
  const auto base = document.entries_.extract("from");
  if (base.empty()) return document;
  const auto& [text, where, list, items, layer, folder] = base.mapped();
  if (depth == kDeepest) {
    throw ConfigError("from",
                      fmt::format("{}: a file begins from itself", where));
  }
  const auto file = folder / text;
  if (list || !std::filesystem::is_regular_file(file)) {
    throw ConfigError("from",
                      fmt::format("{}: no file {}", where, file.string()),
                      "a path beside this file");
  }
  auto inherited = from_file(file, depth + 1);
  document.drop_sections_of_other_names(inherited);
  // Ours first: merge leaves what is there.
  document.entries_.merge(inherited.entries_);
  return document;
}

void Document::drop_sections_of_other_names(Document& inherited) const {
  const std::string name = ".name";
  for (const auto& [key, entry] : entries_) {
    const auto there = inherited.entries_.find(key);
    if (!key.ends_with(name) || there == inherited.entries_.end() ||
        there->second.text == entry.text) {
      continue;
    }
    const auto section = key.substr(0, key.size() - name.size() + 1);
    std::erase_if(inherited.entries_, [&](const auto& item) {
      return item.first.starts_with(section);
    });
  }
}

Document Document::from_text(const std::string& yaml, const std::string& name) {
  Document document;
  document.name_ = name;
  try {
    if (has_several_documents(yaml)) {
      throw ConfigError("", name + ": expected one document, found a '---'");
    }
    const auto root = YAML::Load(yaml);
    if (!root.IsMap() && !root.IsNull()) {
      throw ConfigError("", name + ": expected `key: value` lines");
    }
    Flattened flattened(name);
    flattened.add(root, "", 0);
    document.entries_ = std::move(flattened.entries);
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
    auto& entry = entries_[path];
    entry =
        list_entry(YAML::Load(text), [&](const YAML::Node&) { return where; });
    entry.layer = kCommandLine;
  } catch (const YAML::Exception& error) {
    throw UsageError(fmt::format("{}: {}", where, error.msg),
                     "a list is written [a, b]");
  }
}

void Document::set(const std::string& path, const std::string& text,
                   const std::string& where) {
  entries_[path] = {.text = text, .where = where, .layer = kCommandLine};
}

void Document::suggest(const std::string& path, const std::string& text,
                       const std::string& where) {
  entries_.try_emplace(path,
                       Entry{.text = text, .where = where, .layer = kBeneath});
}

void Document::drop_inherited(const std::string& beginning,
                              const std::string& chooser) {
  const auto choice = entries_.find(chooser);
  if (choice == entries_.end()) return;
  // What the command line chooses stands beside what the file says.
  const int layer = std::min(choice->second.layer, 0);
  std::erase_if(entries_, [&](const auto& item) {
    return item.first.starts_with(beginning) && item.second.layer < layer &&
           item.second.layer > kBeneath;
  });
}

std::optional<std::string> Document::get(const std::string& path) const {
  const auto found = entries_.find(path);
  if (found == entries_.end()) return std::nullopt;
  return found->second.text;
}

std::optional<std::string> Document::rename_key(const Field& field) {
  if (field.meta.formerly.empty()) return std::nullopt;
  auto former = entries_.extract(field.meta.formerly);
  if (former.empty()) return std::nullopt;
  const auto& entry = former.mapped();
  auto what = fmt::format("{}: {} is now called {}", entry.where,
                          field.meta.formerly, field.path);
  const auto present = entries_.find(field.path);
  if (present != entries_.end()) {
    if (present->second.layer == entry.layer) {
      throw ConfigError(field.path, what + ", and both are given",
                        "leave one of them out");
    }
    if (present->second.layer > entry.layer) return what;
  }
  entries_[field.path] = entry;
  return what;
}

std::optional<std::string> Document::rename_value(const Field& field) {
  const auto found = entries_.find(field.path);
  if (found == entries_.end()) return std::nullopt;
  auto& entry = found->second;
  const auto former = field.former_values.find(entry.text);
  if (former == field.former_values.end()) return std::nullopt;
  entry.text = former->second;
  return fmt::format("{}: {}={} is now called {}", entry.where, field.path,
                     former->first, former->second);
}

std::vector<std::string> Document::rename_former(const Schema& schema) {
  std::vector<std::string> said;
  for (const auto& field : schema.fields()) {
    if (const auto key = rename_key(field)) said.push_back(*key);
    if (const auto value = rename_value(field)) said.push_back(*value);
  }
  return said;
}

std::vector<std::string> Document::apply_to(const Schema& schema) {
  auto said = rename_former(schema);
  for (auto& [path, entry] : entries_) {
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
    if (field->meta.file) entry.text = found_from(entry.folder, entry.text);
    try {
      field->set(entry.text);
    } catch (const std::invalid_argument& error) {
      throw ConfigError(path, fmt::format("{}: {}: {}, got '{}'", entry.where,
                                          path, error.what(), entry.text));
    }
  }
  return said;
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

}  // namespace propagator::config
