#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "propagator/pde/text/expression_node.h"
#include "propagator/pde/text/problem_reader.h"
#include "propagator/pde/text/sought_range.h"

// Parameters, known and unknown.

namespace propagator::pde {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> found(1);
  for (const char c : text) {
    const bool of_word =
        c == '_' || std::isalnum(static_cast<unsigned char>(c)) || (c & 0x80);
    if (of_word) {
      found.back() += c;
    } else if (!found.back().empty()) {
      found.emplace_back();
    }
  }
  return found;
}

}  // namespace

bool ProblemReader::is_reserved(const std::string& name) {
  return find_function(name) != nullptr ||
         std::ranges::count(
             std::vector<std::string>{"pi", "e", "d", "in", "on", "at",
                                      "periodic", "boundary", "if"},
             name) > 0;
}

Part ProblemReader::trimmed(const std::string& text, Part part) {
  const auto blank = [&text](size_t at) {
    return std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos;
  };
  while (part.from < part.to && blank(part.from)) ++part.from;
  while (part.to > part.from && blank(part.to - 1)) --part.to;
  return part;
}

void ProblemReader::note_names(const ProblemText& text) {
  for (const auto& item : text.domain) {
    later_names_[words(item).front()] = "a variable";
  }
  for (const auto& item : text.fields) {
    for (const auto& name : words(item)) later_names_[name] = "a field";
  }
  for (const auto& item : text.coefficients) {
    later_names_[words(item).front()] = "a coefficient";
  }
}

double ProblemReader::value_of(const Line& line,
                               const std::string& name) const {
  line.expect(1, "=", "write a parameter as c = 2");
  const auto part =
      trimmed(line.text, {line.tokens[1].end(), line.text.size()});
  for (const auto& token : line.tokens) {
    const auto later = later_names_.find(token.text);
    const bool is_known = problem_.symbols.constants.contains(token.text) ||
                          is_reserved(token.text);
    if (token.at < part.from || token.kind != Token::Kind::kName ||
        later == later_names_.end() || is_known) {
      continue;
    }
    line.fail(fmt::format("a parameter is a number, and {} is {}", token.text,
                          later->second),
              token,
              fmt::format("write {} = {} among the coefficients", name,
                          line.text.substr(part.from, part.to - part.from)));
  }
  return constant(line, part);
}

void ProblemReader::read_parameter(const Line& line) {
  const auto name = declared(line, line.tokens[0]);
  const double value = value_of(line, name);
  for (const auto& token : line.tokens) {
    if (token.text != name) used_by_[token.text] = name;
  }
  problem_.symbols.constants[name] = value;
  problem_.parameters.emplace_back(name, value);
}

void ProblemReader::read_unknown(const Line& line) {
  if (line.tokens[1].is("(")) return;  // a function, read with the fields
  const auto& token = line.tokens[0];
  auto& constants = problem_.symbols.constants;
  const auto known = constants.find(token.text);
  const auto is_named = [&](const Unknown& other) {
    return other.name == token.text;
  };
  if (known == constants.end() ||
      std::ranges::any_of(problem_.unknowns, is_named)) {
    declared(line, token);
  }
  const auto& name = token.text;
  if (const auto user = used_by_.find(name); user != used_by_.end()) {
    line.fail(fmt::format("the parameter {} is computed from {}, which is not "
                          "known then",
                          user->second, name),
              token,
              fmt::format("write its formula in the equations in place of {}",
                          user->second));
  }
  Unknown unknown{name};
  if (line.tokens[1].is_name("in")) {
    unknown.bounds = bounds_at(line, 1, "write bounds as c in [0.1, 10]");
    unknown.start = SoughtRange(*unknown.bounds).middle();
  } else {
    unknown.start = value_of(line, name);
  }
  if (known != constants.end()) {
    unknown.truth = known->second;
    if (unknown.bounds && (known->second < unknown.bounds->low ||
                           known->second > unknown.bounds->high)) {
      line.fail(fmt::format("the true {} is {}, outside of its bounds", name,
                            known->second),
                token, "widen the bounds, or correct problem.parameters");
    }
  } else {
    constants[name] = unknown.start;
  }
  problem_.unknowns.push_back(std::move(unknown));
}

void ProblemReader::expect_known(const Line& line, const char* where,
                                 bool true_ones) const {
  for (const auto& token : line.tokens) {
    for (const auto& unknown : problem_.unknowns) {
      if (token.text != unknown.name) continue;
      if (unknown.truth && true_ones) continue;
      line.fail(fmt::format("{} is unknown, and {} needs its number",
                            token.text, where),
                token, "unknown parameters stand in equations alone");
    }
  }
  expect_known_coefficients(line, where, true_ones);
}

Symbols ProblemReader::open_symbols() const {
  auto symbols = problem_.symbols;
  for (const auto& unknown : problem_.unknowns) {
    symbols.constants.erase(unknown.name);
    symbols.unknowns.push_back(unknown.name);
  }
  symbols.coefficients = open_coefficients_;
  return symbols;
}

void ProblemReader::check_unknowns() const {
  std::set<int64_t> found;
  for (const auto& equation : problem_.open_equations) {
    found.merge(equation.unknowns());
  }
  for (int64_t k = 0; k < std::ssize(problem_.unknowns); ++k) {
    if (found.contains(k)) continue;
    throw ProblemError(
        "unknown", k,
        fmt::format("{} appears in no equation",
                    problem_.unknowns[static_cast<size_t>(k)].name),
        "readings say nothing of it: leave it out");
  }
}

}  // namespace propagator::pde
