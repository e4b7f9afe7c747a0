#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "propagator/core/config.h"
#include "propagator/pde/text/complex_field.h"
#include "propagator/pde/text/problem_reader.h"

// Coefficients, complex fields and a declared time.

namespace propagator::pde {
namespace {

constexpr size_t kLongest = 20'000;  // characters of a coefficient

}  // namespace

void ProblemReader::read_time(const std::string& name) {
  if (name.empty()) return;
  const auto& known = problem_.symbols.variables;
  if (std::ranges::find(known, name) == known.end()) {
    throw ProblemError(
        "time", -1, fmt::format("{} is no variable", name),
        config::did_you_mean(
            name, known,
            fmt::format("the variables are {}", fmt::join(known, ", "))));
  }
  problem_.symbols.time = name;
}

void ProblemReader::read_complex_fields(const Line& line) {
  auto& symbols = problem_.symbols;
  for (size_t i = 1;; i += 2) {
    const auto& name = line.tokens[i];
    symbols.complex_fields.push_back(declared(line, name));
    for (const char* part : {"_re", "_im"}) {
      auto own = name;
      own.text += part;
      symbols.fields.push_back(declared(line, own));
    }
    if (line.tokens[i + 1].kind == Token::Kind::kEnd) return;
    line.expect(i + 1, ",", "write complex fields as complex psi, phi");
  }
}

void ProblemReader::read_coefficient(const Line& line) {
  const auto name = declared(line, line.tokens[0]);
  line.expect(1, "=", "write a coefficient as k = 1 + 0.5*sin(2*pi*x)");
  for (const auto& token : line.tokens) {
    if (token.kind != Token::Kind::kName || token.at == line.tokens[0].at ||
        parts_named(token.text, problem_.symbols).empty()) {
      continue;
    }
    line.fail(fmt::format("a coefficient is a formula of variables and "
                          "parameters, and {} is a field",
                          token.text),
              token, "write what has fields in it in the equations");
  }
  const auto part =
      trimmed(line.text, {line.tokens[1].end(), line.text.size()});
  // Later lines read what it comes to, so that it must be short and flat
  // enough to be read.
  const auto flat = [&](const Symbols& symbols) {
    auto text = Expression::parse(line.text, symbols, part).text();
    try {
      if (text.size() <= kLongest) Expression::parse(text, symbols);
    } catch (const SyntaxError&) {
      text.resize(kLongest + 1);
    }
    if (text.size() <= kLongest) return text;
    throw SyntaxError("this coefficient is too long", line.text, part.from,
                      part.to - part.from,
                      "it has the earlier ones in it, written out");
  };
  const auto closed = flat(problem_.symbols);
  const auto open = problem_.unknowns.empty() ? closed : flat(open_symbols());
  problem_.symbols.coefficients[name] = closed;
  open_coefficients_[name] = open;
  remark_on_steps(line);
  const auto is_one = [this](const Token& token) { return is_step(token); };
  if (std::ranges::any_of(line.tokens, is_one)) steps_.insert(name);
}

bool ProblemReader::is_step(const Token& token) const {
  return token.is_name("heaviside") || token.is_name("sign") ||
         token.is_name("if") ||
         (token.kind == Token::Kind::kName && steps_.contains(token.text));
}

void ProblemReader::remark_on_steps(const Line& line) {
  const auto takes_derivatives = [](const Token& name) {
    return name.is_name("d") || name.is_name("div") || name.is_name("grad") ||
           name.is_name("laplacian");
  };
  std::vector<bool> inside{false};  // a derivative, bracket by bracket
  for (size_t n = 0; n < line.tokens.size(); ++n) {
    const auto& token = line.tokens[n];
    if (token.is("(")) {
      inside.push_back(inside.back() ||
                       (n > 0 && takes_derivatives(line.tokens[n - 1])));
    } else if (token.is(")") && inside.size() > 1) {
      inside.pop_back();
    } else if (inside.back() && is_step(token)) {
      auto remark = fmt::format(
          "{} may jump, and derivatives are those of its sides alone; where "
          "a flux k*u_x does not jump, make it a field: q = -k*u_x",
          token.text);
      if (std::ranges::count(problem_.remarks, remark) > 0) return;
      problem_.remarks.push_back(std::move(remark));
      return;
    }
  }
}

void ProblemReader::expect_known_coefficients(const Line& line,
                                              const char* where,
                                              bool true_ones) const {
  const auto open = open_symbols();
  for (const auto& token : line.tokens) {
    const auto found = open_coefficients_.find(token.text);
    if (found == open_coefficients_.end()) continue;
    for (const int64_t k : Expression::parse(found->second, open).unknowns()) {
      const auto& unknown = problem_.unknowns[static_cast<size_t>(k)];
      if (unknown.truth && true_ones) continue;
      line.fail(fmt::format("{} is unknown, on which {} depends, and {} needs "
                            "its number",
                            unknown.name, token.text, where),
                token, "unknown parameters stand in equations alone");
    }
  }
}

}  // namespace propagator::pde
