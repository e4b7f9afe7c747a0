#include "propagator/pde/text/unknown_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>

#include "propagator/core/config.h"
#include "propagator/pde/text/expression_operators.h"
#include "propagator/pde/text/syntax_error.h"

namespace propagator::pde {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// With complex fields beside their parts.
Symbols with_whole_fields(Symbols symbols) {
  symbols.fields.insert(symbols.fields.end(), symbols.complex_fields.begin(),
                        symbols.complex_fields.end());
  return symbols;
}

// Any short name is near to any other: it suggests nothing.
std::string suggestion(const std::string& word,
                       const std::vector<std::string>& candidates,
                       const std::string& otherwise) {
  return word.size() < 4 ? otherwise
                         : config::did_you_mean(word, candidates, otherwise);
}

// If the name reads as a derivative but for its field or a variable.
void fail_as_derivative(const std::string& text, const Token& name,
                        const Symbols& symbols) {
  const auto& word = name.text;
  for (const auto& field : symbols.fields) {
    if (!word.starts_with(field + "_")) continue;
    const size_t from = field.size() + 1;
    const auto split = autodiff::split_into_variables(
        std::string_view(word).substr(from), symbols.variables);
    const size_t bad = from + split.read;
    const auto hint =
        fmt::format("the variables are {}; a parameter must have a value",
                    fmt::join(symbols.variables, ", "));
    if (bad >= word.size()) {
      throw SyntaxError("no variable stands behind '_'", text,
                        name.at + from - 1, 1, hint);
    }
    throw SyntaxError(
        fmt::format("derivative of {} by an unknown variable '{}'", field,
                    word.substr(bad)),
        text, name.at + bad, word.size() - bad, hint);
  }
  const size_t bar = word.rfind('_');
  if (bar == std::string::npos || bar == 0) return;
  const auto field = word.substr(0, bar);
  if (!autodiff::split_into_variables(std::string_view(word).substr(bar + 1),
                                      symbols.variables)
           .orders) {
    return;
  }
  throw SyntaxError(
      fmt::format("derivative of an unknown field '{}'", field), text, name.at,
      bar,
      symbols.fields.empty()
          ? "there are no fields here"
          : suggestion(field, symbols.fields,
                       fmt::format("the fields are {}; a parameter {} must "
                                   "have a value",
                                   fmt::join(symbols.fields, ", "), word)));
}

}  // namespace

void fail_as_quotient(const std::string& text, const Token& name,
                      const Symbols& symbols) {
  static const std::regex quotient(
      R"(d ?\^? ?([2-8]?) ?(\w+) ?/ ?d ?(\w+?)\^?\1(?!\w))");
  constexpr size_t kLongest = 60;  // regex is no friend of long texts
  const auto rest = text.substr(name.at, kLongest);
  std::smatch parts;
  if (!std::regex_search(rest, parts, quotient,
                         std::regex_constants::match_continuous)) {
    return;
  }
  const auto field = std::ranges::find(symbols.fields, parts.str(2));
  const auto variable = std::ranges::find(symbols.variables, parts.str(3));
  if (field == symbols.fields.end() || variable == symbols.variables.end()) {
    return;
  }
  Derivative derivative{field - symbols.fields.begin(),
                        std::vector<int64_t>(symbols.variables.size(), 0)};
  derivative.orders[static_cast<size_t>(variable - symbols.variables.begin())] =
      parts.str(1).empty() ? 1 : std::stoll(parts.str(1));
  throw SyntaxError("a derivative is no quotient here", text, name.at,
                    parts.str(0).size(),
                    fmt::format("write {}, or d(…, {}) of a formula",
                                derivative.text(symbols), *variable));
}

void fail_unknown_name(const std::string& text, const Token& name,
                       const Symbols& own) {
  const auto symbols = with_whole_fields(own);
  fail_as_quotient(text, name, symbols);
  fail_as_derivative(text, name, symbols);
  std::vector<std::string> known = symbols.variables;
  known.insert(known.end(), symbols.fields.begin(), symbols.fields.end());
  for (const auto& [constant, value] : symbols.constants) {
    known.push_back(constant);
  }
  for (const auto& [coefficient, formula] : symbols.coefficients) {
    known.push_back(coefficient);
  }
  for (const auto& [name_of_table, table] : symbols.tables) {
    known.push_back(name_of_table);
  }
  known.push_back("pi");
  const auto value =
      fmt::format("give it a value, as a parameter {} = 1", name.text);
  const bool may_be_imaginary = name.text == "i" || name.text == "j";
  throw SyntaxError(
      fmt::format("unknown name '{}': no variable, field or parameter",
                  name.text),
      text, name.at, name.length,
      may_be_imaginary
          ? "declare a complex field, as fields: complex psi, where i is the "
            "imaginary unit; or, if it is a number, " +
                value
          : suggestion(name.text, known, value));
}

void fail_unknown_function(const std::string& text, const Token& name,
                           const Symbols& own) {
  const auto symbols = with_whole_fields(own);
  const auto& word = name.text;
  std::string sentence, hint;
  if (contains(symbols.variables, word) || symbols.constants.contains(word) ||
      symbols.coefficients.contains(word) || symbols.tables.contains(word) ||
      contains(symbols.unknowns, word) || word == "pi" || word == "e") {
    sentence = fmt::format("{} is a number, not a function", word);
    hint = fmt::format("write {}*(…)", word);
  } else if (autodiff::derivative_named(word, symbols)) {
    sentence = fmt::format(
        "{} is called, but a field stands for its value at the point", word);
    hint = fmt::format(
        "write {0} without arguments; for a product write {0}*(…)", word);
  } else {
    std::vector<std::string> known{"d"};
    for (const auto& function : functions()) known.push_back(function.name);
    for (const auto& operation : operator_names()) known.push_back(operation);
    sentence = fmt::format("unknown function '{}'", word);
    hint =
        suggestion(word, known,
                   fmt::format("the functions are {}", fmt::join(known, ", ")));
  }
  throw SyntaxError(sentence, text, name.at, name.length, hint);
}

}  // namespace propagator::pde
