#include "propagator/pde/text/problem_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "propagator/pde/text/complex_field.h"

namespace propagator::pde {
namespace {

std::string got(const Token& token) {
  return token.kind == Token::Kind::kEnd
             ? ", got the end"
             : fmt::format(", got '{}'", token.text);
}

template <class Item, class Read>
void for_each_item(const char* list, const std::vector<Item>& items,
                   Read&& read) {
  for (size_t i = 0; i < items.size(); ++i) {
    try {
      read(items[i]);
    } catch (const SyntaxError& error) {
      throw ProblemError(list, static_cast<int64_t>(i), error.what(),
                         error.hint());
    }
  }
}

}  // namespace

void ProblemReader::Line::fail(const std::string& sentence, const Token& token,
                               const std::string& hint) const {
  throw SyntaxError(sentence, text, token.at, token.length, hint);
}

void ProblemReader::Line::expect(size_t i, const char* symbol,
                                 const std::string& usage) const {
  const auto& token = i < tokens.size() ? tokens[i] : end();
  if (token.is(symbol)) return;
  fail(fmt::format("expected '{}'{}", symbol, got(token)), token, usage);
}

Problem ProblemReader::read(const ProblemText& text) {
  note_names(text);
  // Parameters first: bounds and places may use them.
  for_each_item("parameters", text.parameters,
                [this](const auto& item) { read_parameter(Line(item)); });
  for_each_item("unknown", text.unknown,
                [this](const auto& item) { read_unknown(Line(item)); });
  for_each_item("domain", text.domain,
                [this](const auto& item) { read_interval(Line(item)); });
  read_time(text.time);
  for_each_item("fields", text.fields,
                [this](const auto& item) { read_fields(Line(item)); });
  for_each_item("tables", text.tables,
                [this](const auto& table) { read_table(table); });
  for_each_item("shapes", text.shapes,
                [this](const auto& item) { read_shape(Line(item)); });
  for_each_item("unknown", text.unknown,
                [this](const auto& item) { read_function(Line(item)); });
  check_names();
  for_each_item("coefficients", text.coefficients,
                [this](const auto& item) { read_coefficient(Line(item)); });
  for_each_item("inside", std::vector{text.inside},
                [this](const auto& item) { read_inside(item); });
  for_each_item("equations", text.equations,
                [this](const auto& item) { read_equation(Line(item)); });
  check_unknowns();
  for_each_item("conditions", text.conditions,
                [this](const auto& item) { read_condition(Line(item)); });
  check_functions();
  has_exact_.assign(problem_.symbols.fields.size(), false);
  if (!text.exact.empty()) {
    problem_.exact.resize(problem_.symbols.fields.size());
  }
  for_each_item("exact", text.exact,
                [this](const auto& item) { read_exact(Line(item)); });
  take_truths();
  for (size_t i = 0; i < problem_.exact.size(); ++i) {
    if (has_exact_[i]) continue;
    const auto& field = problem_.symbols.fields[i];
    throw ProblemError("exact", -1,
                       fmt::format("no exact solution of the field {}", field),
                       fmt::format("add {} = …, or give none at all", field));
  }
  return std::move(problem_);
}

// A name that reads as a derivative could mean either; seen when all are known.
void ProblemReader::check_names() const {
  for (const auto& name : names_) {
    auto others = problem_.symbols;
    others.fields.insert(others.fields.end(), others.complex_fields.begin(),
                         others.complex_fields.end());
    std::erase(others.fields, name);
    if (!derivative_named(name, others)) continue;
    throw ProblemError("fields", -1,
                       fmt::format("the name {} is also a derivative", name),
                       "choose another name");
  }
}

std::string ProblemReader::declared(const Line& line, const Token& name) {
  if (name.kind != Token::Kind::kName) {
    line.fail("expected a name" + got(name), name,
              "names are letters, digits and _");
  }
  if (is_reserved(name.text)) {
    line.fail(fmt::format("the name {} is reserved", name.text), name,
              "choose another name");
  }
  if (!names_.insert(name.text).second) {
    line.fail(fmt::format("the name {} is used twice", name.text), name,
              "variables, fields and parameters need names of their own");
  }
  return name.text;
}

int64_t ProblemReader::variable(const Line& line, const Token& name) const {
  const auto& known = problem_.symbols.variables;
  const auto found = std::ranges::find(known, name.text);
  if (name.kind == Token::Kind::kName && found != known.end()) {
    return found - known.begin();
  }
  line.fail("expected a variable" + got(name), name,
            fmt::format("the variables are {}", fmt::join(known, ", ")));
}

double ProblemReader::constant(const Line& line, Part part) const {
  part = trimmed(line.text, part);
  const auto value =
      Expression::parse(line.text, problem_.symbols, part).constant();
  if (!value) {
    throw SyntaxError("expected a number, got a formula of variables",
                      line.text, part.from, part.to - part.from,
                      "parameters and pi may stand here");
  }
  return *value;
}

void ProblemReader::read_interval(const Line& line) {
  const std::string usage = "write a domain as x in [0, 1]";
  const auto& tokens = line.tokens;
  expect_known(line, "the domain");
  const auto name = declared(line, tokens[0]);
  const auto interval = bounds_at(line, 1, usage);
  problem_.symbols.variables.push_back(name);
  problem_.domain.push_back(interval);
}

Interval ProblemReader::bounds_at(const Line& line, size_t i,
                                  const std::string& usage) const {
  const auto& tokens = line.tokens;
  if (!tokens[i].is_name("in")) {
    line.fail("expected 'in'" + got(tokens[i]), tokens[i], usage);
  }
  const size_t open = i + 1;
  line.expect(open, "[", usage);
  const size_t last = tokens.size() - 2;  // before the end
  line.expect(last > open ? last : last + 1, "]", usage);
  const auto comma =
      std::find_if(tokens.begin() + static_cast<int64_t>(open), tokens.end(),
                   [](const Token& token) { return token.is(","); });
  if (comma == tokens.end()) {
    line.fail("expected two bounds", tokens[open], usage);
  }
  const Interval interval{constant(line, {tokens[open].end(), comma->at}),
                          constant(line, {comma->end(), tokens[last].at})};
  if (!(interval.low < interval.high)) {
    throw SyntaxError(fmt::format("expected low < high, got [{}, {}]",
                                  interval.low, interval.high),
                      line.text, tokens[open].at,
                      tokens[last].end() - tokens[open].at, "");
  }
  return interval;
}

void ProblemReader::read_fields(const Line& line) {
  if (line.tokens[0].is_name("complex") &&
      line.tokens[1].kind == Token::Kind::kName) {
    return read_complex_fields(line);
  }
  for (size_t i = 0;; i += 2) {
    problem_.symbols.fields.push_back(declared(line, line.tokens[i]));
    if (line.tokens[i + 1].kind == Token::Kind::kEnd) return;
    line.expect(i + 1, ",", "write fields as u, v");
  }
}

std::vector<Expression> ProblemReader::residuals(const Line& line, Part part,
                                                 const Symbols& symbols,
                                                 const Normal* normal) const {
  part = trimmed(line.text, part);
  auto formulas =
      normal == nullptr
          ? Expression::parse_equations(line.text, symbols, part)
          : Expression::parse_on_edge(line.text, symbols, *normal, part);
  for (auto& formula : formulas) {
    formula = without_constant_derivatives(formula);
    if (!formula.derivatives().empty()) continue;
    throw SyntaxError(
        formulas.size() == 1
            ? "no field is left in this equation"
            : "no field is left in the real or the imaginary part of this "
              "equation",
        line.text, part.from, part.to - part.from,
        fmt::format("the fields are {}", fmt::join(symbols.fields, ", ")));
  }
  return formulas;
}

void ProblemReader::read_equation(const Line& line) {
  const Part all{0, line.text.size()};
  remark_on_steps(line);
  for (auto& part : residuals(line, all, problem_.symbols)) {
    problem_.equations.push_back(std::move(part));
  }
  if (problem_.unknowns.empty()) return;
  for (auto& part : residuals(line, all, open_symbols())) {
    problem_.open_equations.push_back(std::move(part));
  }
}

void ProblemReader::read_condition(const Line& line) {
  const std::string usage =
      "write at t=0: u = …, on x=0: u = …, on boundary: u = …, or periodic x";
  expect_known(line, "a condition");
  const auto& first = line.tokens[0];
  if (first.is_name("periodic")) return read_periodic(line);
  if (!first.is_name("at") && !first.is_name("on")) {
    const auto meant = with_place(line);
    line.fail("expected 'at', 'on' or 'periodic' in front of a condition",
              first, meant.empty() ? usage : "write " + meant);
  }
  const auto found = std::ranges::find_if(
      line.tokens, [](const Token& token) { return token.is(":"); });
  if (found == line.tokens.end()) {
    line.fail("expected ':' between the place and the equation", line.end(),
              usage);
  }
  const auto colon = static_cast<size_t>(found - line.tokens.begin());
  if (line.tokens[1].is_name("boundary")) {
    read_boundary(line, colon);
  } else if (problem_.region && colon == 2) {
    read_edge(line, colon);
  } else {
    read_face(line, colon);
  }
}

std::string ProblemReader::with_place(const Line& line) const {
  const auto& tokens = line.tokens;
  const auto& variables = problem_.symbols.variables;
  const auto is_call = [&](const Token& name, const Token& next) {
    return next.is("(") && !parts_named(name.text, problem_.symbols).empty();
  };
  const auto call = std::adjacent_find(tokens.begin(), tokens.end(), is_call);
  if (call != tokens.begin()) return "";
  const auto another = std::adjacent_find(call + 1, tokens.end(), is_call);
  const size_t open = tokens[1].end(), close = line.text.find(')', open);
  if (another != tokens.end() || close == std::string::npos) return "";
  std::string face;
  size_t from = open;
  for (size_t i = 0; i < variables.size(); ++i) {
    const bool last = i + 1 == variables.size();
    const size_t to = last ? close : line.text.find(',', from);
    if (to > close) return "";
    const auto [begin, end] = trimmed(line.text, {from, to});
    const auto argument = line.text.substr(begin, end - begin);
    from = to + 1;
    if (argument == variables[i]) continue;
    if (!face.empty()) return "";  // a place on two faces
    const bool is_time = static_cast<int64_t>(i) == problem_.time();
    const auto value = argument.substr(argument.find('=') + 1);  // t=0: 0
    face = fmt::format("{} {}={}: {}{}", is_time ? "at" : "on", variables[i],
                       value, tokens[0].text, line.text.substr(close + 1));
  }
  return face;
}

void ProblemReader::read_boundary(const Line& line, size_t colon) {
  if (colon != 2) line.expect(2, ":", "write on boundary: u = …");
  const Part formula{line.tokens[colon].end(), line.text.size()};
  const size_t before = problem_.conditions.size();
  const auto* region = problem_.region.get();
  for (int64_t n = 0; n < std::ssize(shapes_); ++n) {
    if (region->share_of_part(n) == 0 || region->is_covered(n)) continue;
    add_on_edge(line, n, formula);
  }
  const auto space = problem_.space();
  for (int64_t axis = 0; axis < std::ssize(space); ++axis) {
    const int64_t x = space[static_cast<size_t>(axis)];
    if (problem_.is_parameter(x)) continue;
    const auto& [low, high] = problem_.domain[static_cast<size_t>(x)];
    for (const double at : {low, high}) {
      const bool is_bare = region != nullptr &&
                           region->share_of_face(axis, at == high, true) == 0;
      if (!is_bare) add_on_face(line, x, at, formula);
    }
  }
  if (problem_.conditions.size() == before) {
    line.fail(
        "there is no boundary: the equations have derivatives by time alone",
        line.tokens[1], "write at t=…, or on x=…");
  }
}

void ProblemReader::read_face(const Line& line, size_t colon) {
  const auto& tokens = line.tokens;
  const int64_t index = variable(line, tokens[1]);
  line.expect(2, "=", "write on x=0: u = …");
  const auto place_end = tokens.begin() + static_cast<int64_t>(colon);
  const auto second =
      std::find_if(tokens.begin() + 3, place_end,
                   [](const Token& token) { return token.is("="); });
  if (second != place_end) {
    line.fail("a condition holds on one face", *(second - 1),
              fmt::format("write one for each, such as {} {}=…: u = …",
                          tokens[0].text, tokens[1].text));
  }
  const double at = place(line, tokens[1], {tokens[2].end(), tokens[colon].at});
  expect_face(line, index, at);
  add_on_face(line, index, at, {line.tokens[colon].end(), line.text.size()});
}

double ProblemReader::place(const Line& line, const Token& name,
                            Part part) const {
  const auto& interval =
      problem_.domain[static_cast<size_t>(variable(line, name))];
  const double at = constant(line, part);
  const double scale =
      std::max({std::abs(interval.low), std::abs(interval.high),
                interval.high - interval.low});
  for (const double end : {interval.low, interval.high}) {
    if (std::abs(at - end) <= 1e-12 * scale) return end;
  }
  const bool inside = at > interval.low && at < interval.high;
  throw SyntaxError(
      fmt::format("condition {} the domain: {}={} with {} in [{}, {}]",
                  inside ? "inside" : "outside", name.text, at, name.text,
                  interval.low, interval.high),
      line.text, name.at, part.to - name.at,
      fmt::format("conditions stand at an end: {0}={1} or {0}={2}", name.text,
                  interval.low, interval.high));
}

void ProblemReader::read_periodic(const Line& line) {
  const std::string usage = "write periodic x, or periodic x: u, u_x";
  const auto& tokens = line.tokens;
  const int64_t index = variable(line, tokens[1]);
  if (problem_.region && index != problem_.time()) {
    line.fail("a domain of shapes is not periodic in space", tokens[1],
              "leave the shapes out, or write a condition on their edges");
  }
  const auto along = static_cast<size_t>(index);
  Condition condition{Condition::Kind::kPeriodic,
                      index,
                      problem_.domain[along].low,
                      {},
                      {},
                      line.text};
  const auto& symbols = problem_.symbols;
  if (tokens[2].kind == Token::Kind::kEnd) {
    for (int64_t f = 0; f < std::ssize(symbols.fields); ++f) {
      int64_t highest = 1;
      for (const auto& derivative : problem_.derivatives()) {
        if (derivative.field != f) continue;
        highest = std::max(highest, derivative.orders[along]);
      }
      // All that an equation of this order leaves free.
      Derivative matched{f, std::vector<int64_t>(symbols.variables.size(), 0)};
      for (int64_t order = 0; order < highest; ++order) {
        matched.orders[along] = order;
        condition.matched.push_back(matched);
      }
    }
  } else {
    line.expect(2, ":", usage);
    for (size_t i = 3;; i += 2) {
      const auto named = parts_named(tokens[i].text, problem_.symbols);
      if (tokens[i].kind != Token::Kind::kName || named.empty()) {
        line.fail("expected a field or a derivative of one" + got(tokens[i]),
                  tokens[i], usage);
      }
      condition.matched.insert(condition.matched.end(), named.begin(),
                               named.end());
      if (tokens[i + 1].kind == Token::Kind::kEnd) break;
      line.expect(i + 1, ",", usage);
    }
  }
  problem_.conditions.push_back(std::move(condition));
}

void ProblemReader::read_exact(const Line& line) {
  const auto& tokens = line.tokens;
  const auto& fields = problem_.symbols.fields;
  const auto given = parts_named(tokens[0].text, problem_.symbols);
  if (tokens[0].kind != Token::Kind::kName || given.empty() ||
      given[0].order() > 0) {
    line.fail(fmt::format("expected a field ({}) in front of '='",
                          fmt::join(fields, ", ")),
              tokens[0], "write an exact solution as u = sin(pi*x)");
  }
  line.expect(1, "=", "write an exact solution as u = sin(pi*x)");
  expect_known(line, "an exact solution", /*true_ones=*/true);
  for (const auto& part : given) {
    if (!has_exact_[static_cast<size_t>(part.field)]) continue;
    line.fail(fmt::format("{} has two exact solutions", tokens[0].text),
              tokens[0]);
  }
  for (size_t i = 2; i < tokens.size(); ++i) {
    const bool is_field =
        tokens[i].kind == Token::Kind::kName &&
        !parts_named(tokens[i].text, problem_.symbols).empty();
    if (!is_field) continue;
    line.fail(fmt::format("an exact solution may not use the field {}",
                          tokens[i].text),
              tokens[i], "use variables and parameters");
  }
  const Part formula{tokens[1].end(), line.text.size()};
  const auto& symbols = problem_.symbols;
  const auto parts =
      given.size() == 1
          ? std::vector{Expression::parse(line.text, symbols, formula)}
          : Expression::parse_parts(line.text, symbols, formula);
  for (size_t n = 0; n < given.size(); ++n) {
    const auto index = static_cast<size_t>(given[n].field);
    problem_.exact[index] = n < parts.size() ? parts[n] : Expression();
    has_exact_[index] = true;
  }
}

}  // namespace propagator::pde
