#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "propagator/core/error.h"

namespace propagator::config {

// What a field is for, which decides who may change it once a run is there.
enum class Role {
  kData,        // what is learned from, and the seed
  kInput,       // a file of data, in whose place an evaluation may read another
  kModel,       // what the tensors of a checkpoint belong to
  kTraining,    // how the weights are found
  kLoss,        // what training descends on
  kEvaluation,  // how a trained model is tested
  kReport,      // what its page shows
  kCompute,     // how the same is computed: in which precision, from where
  kPlace,       // on which machine, and how long
  kLabel,       // what a run is called and compared with
};

// Whether `resume` or an evaluation may change a field of a run that is there,
// and whether the field decides numbers, so that a hash has it.
bool resume_may_change(Role role);
bool evaluation_may_change(Role role);
bool is_hashed(Role role);

// What a field's declaration says beside its name and default.
struct Meta {
  std::string help;
  std::string unit = "";
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::optional<Role> role = {};  // that of its section, unless it has its own
  bool memory = false;            // whether less of it needs less memory
  std::string for_pages = "";     // its value where only pages are made
  // Whether it names a file, a folder, or a list of them: one beside the
  // configuration that says so, if it is there, else in the current folder.
  bool file = false;
  // Whether it came when there were results already: a hash has it only where
  // it is not the default, so that those still match.
  bool later = false;
  // The whole path that it had before it was renamed: still read, with a
  // warning, and what a hash has, so that the results of old runs match.
  std::string formerly = "";
};

// The names of an enum's values: specialise it beside the enum,
//   template <> struct Names<Mask> {
//     static constexpr std::pair<Mask, const char*> all[] = {...};
//   };
// If values were renamed, `former` has pairs of a former and a present name.
template <class Enum>
struct Names;

template <>
struct Names<Role> {
  using enum Role;
  static constexpr std::pair<Role, const char*> all[] = {
      {kData, "data"},     {kInput, "input"},
      {kModel, "model"},   {kTraining, "training"},
      {kLoss, "loss"},     {kEvaluation, "evaluation"},
      {kReport, "report"}, {kCompute, "compute"},
      {kPlace, "place"},   {kLabel, "label"}};
};

template <class Enum>
std::string name_of(Enum value) {
  for (const auto& [known, name] : Names<Enum>::all) {
    if (known == value) return name;
  }
  return "?";
}

template <class Enum>
std::string all_names() {
  std::string names;
  for (const auto& [value, name] : Names<Enum>::all) {
    names += (names.empty() ? "" : " | ") + std::string(name);
  }
  return names;
}

// The value of that name; std::invalid_argument says which there are.
template <class Enum>
Enum value_of(const std::string& text) {
  for (const auto& [value, name] : Names<Enum>::all) {
    if (text == name) return value;
  }
  throw std::invalid_argument("expected " + all_names<Enum>());
}

// One field: where it lives, what it accepts, how it is read and written.
// `set` takes the text of a scalar and throws std::invalid_argument with
// "expected …" if the text does not fit.
struct Field {
  std::string path;  // "model.heads"
  Meta meta;
  Role role;
  std::string type;  // "integer", "number", "text", "yes/no", "a | b", "list"
  std::string default_text = "";
  std::function<void(const std::string&)> set = {};
  std::function<std::string()> get = {};
  std::map<std::string, std::string> former_values = {};  // to present ones

  // "model.heads=16" under the names that it had at first.
  std::string hash_text() const;
};

// Strict conversions; std::invalid_argument says what was expected.
void parse(const std::string& text, const Meta& meta, int64_t& value);
void parse(const std::string& text, const Meta& meta, double& value);
void parse(const std::string& text, const Meta& meta, bool& value);
void parse(const std::string& text, const Meta& meta, std::string& value);
// A list's text has an item on each line; empty lines are none.
std::vector<std::string> items_of(const std::string& text);
void parse(const std::string& text, const Meta& meta,
           std::vector<std::string>& value);
std::string print(int64_t value);
std::string print(double value);
std::string print(bool value);
std::string print(const std::string& value);
std::string print(const std::vector<std::string>& value);

// The list of fields of a configuration. An options struct declares each of
// its fields once, in `describe`, and from that come reading, bounds, --help,
// the printed table and the stored copy:
//
//   struct Options {
//     int64_t heads = 16;
//     void describe(config::Schema& s) {
//       s.field("heads", heads, {.help = "attention heads", .min = 1});
//     }
//   };
//
// The schema refers to the struct's members: the struct must outlive it.
class Schema {
 public:
  static constexpr const char* kList = "list";

  template <class T>
  void field(const std::string& name, T& value, Meta meta) {
    const Role role = meta.role.value_or(role_);
    Field f{prefix_ + name, std::move(meta), role, type_name<T>()};
    if constexpr (requires { Names<T>::former; }) {
      f.former_values.insert(std::begin(Names<T>::former),
                             std::end(Names<T>::former));
    }
    if constexpr (std::is_enum_v<T>) {
      f.set = [&value](const std::string& text) { value = value_of<T>(text); };
      f.get = [&value] { return name_of(value); };
    } else {
      f.set = [&value, meta = f.meta](const std::string& text) {
        parse(text, meta, value);
      };
      f.get = [&value] { return print(value); };
    }
    f.default_text = f.get();
    fields_.push_back(std::move(f));
  }

  // A group of fields under `name`: `options` has a `describe(Schema&)`. They
  // have the given role, or that of the section around them.
  template <class Options>
  void section(const std::string& name, Options& options,
               std::optional<Role> role = {}) {
    const auto outer = prefix_;
    const auto outer_role = role_;
    prefix_ += name + ".";
    role_ = role.value_or(role_);
    options.describe(*this);
    prefix_ = outer;
    role_ = outer_role;
  }

  // Another default for a field that is there already.
  void set_default(const std::string& path, const std::string& text);

  const std::vector<Field>& fields() const { return fields_; }
  const Field* find(const std::string& path) const;

 private:
  template <class T>
  static std::string type_name();

  std::string prefix_;
  Role role_ = Role::kData;
  std::vector<Field> fields_;
};

// A configuration file as read: scalars by dotted path, each with its place.
class Document {
 public:
  struct Entry {
    std::string text;
    std::string where;  // "base.yaml:12:9" or "-s model.heads=3"
    bool list = false;
    std::vector<std::string> items = {};  // where those of a list stand
    // A file's entries are above those of the file it begins from, and those of
    // the command line above all.
    int layer = 0;
    std::filesystem::path folder = {};  // of the file that it stands in
  };

  // A file may begin with what another says: `from: ../problems/wave.yaml`, a
  // path beside it; its own keys replace those.
  static Document from_file(const std::filesystem::path& path);
  static Document from_text(const std::string& yaml, const std::string& name);

  // "key=value" from the command line; replaces what the file says.
  void override_with(const std::string& assignment);
  void set(const std::string& path, const std::string& text,
           const std::string& where);
  // The same, beneath all that the document says under whatever name.
  void suggest(const std::string& path, const std::string& text,
               const std::string& where);

  std::optional<std::string> get(const std::string& path) const;
  const std::map<std::string, Entry>& entries() const { return entries_; }

  // Leaves out the keys with that beginning of the files that the one which
  // sets `chooser` begins from: they were meant for another choice.
  void drop_inherited(const std::string& beginning, const std::string& chooser);

  // Gives keys and values their present names; returns what to say of those
  // that had former ones. ConfigError if one layer names a key both ways.
  std::vector<std::string> rename_former(const Schema& schema);
  // Does so, and sets every field that the document names. ConfigError messages
  // carry place, key, what was expected and, for an unknown key, the nearest
  // one.
  std::vector<std::string> apply_to(const Schema& schema);
  // Puts the place of the key, or of its item, in front of an error that
  // validation raised later.
  [[noreturn]] void rethrow_with_place(const ConfigError& error) const;

 private:
  static Document from_file(const std::filesystem::path& path, int depth);
  // A section whose `name` is another's here, as that of a model, begins anew:
  // what is inherited of it was meant for the other.
  void drop_sections_of_other_names(Document& inherited) const;
  std::optional<std::string> rename_key(const Field& field);
  std::optional<std::string> rename_value(const Field& field);

  std::map<std::string, Entry> entries_;
  std::string name_;
};

// The configuration as YAML, one line of help beside each field; reading it
// back gives the same values.
std::string to_yaml(const Schema& schema, bool with_help);
// The fields as a table for --help: key, type, default, bounds, role, help.
std::string to_help(const Schema& schema);
// The candidate nearest to `word` by edit distance, if any is near.
std::optional<std::string> nearest(const std::string& word,
                                   std::span<const std::string> candidates);
// "did you mean X?" of the nearest one, or `otherwise` if none is near.
std::string did_you_mean(const std::string& word,
                         std::span<const std::string> candidates,
                         const std::string& otherwise);

template <class T>
std::string Schema::type_name() {
  if constexpr (std::is_enum_v<T>) {
    return all_names<T>();
  } else if constexpr (std::is_same_v<T, bool>) {
    return "yes/no";
  } else if constexpr (std::is_integral_v<T>) {
    return "integer";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "number";
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return kList;
  } else {
    return "text";
  }
}

}  // namespace propagator::config
