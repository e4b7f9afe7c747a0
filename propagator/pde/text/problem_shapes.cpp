#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "propagator/core/config.h"
#include "propagator/pde/geometry/ball.h"
#include "propagator/pde/geometry/level_set.h"
#include "propagator/pde/geometry/polygon.h"
#include "propagator/pde/text/problem_reader.h"

// Shapes, what of them is inside, and conditions on their edges.

namespace propagator::pde {
namespace {

using torch::Tensor;

constexpr const char* kWholeBox = "domain";  // in the text of what is inside
constexpr double kLeastShare = 1e-3;         // of the box, that is inside
constexpr int kDeepestBrackets = 100;

struct ShapeKind {
  const char* name;
  int64_t dimensions;  // 0: two or three
  const char* usage;
};
constexpr ShapeKind kShapeKinds[] = {
    {"disk", 2, "disk(x, y, radius)"},
    {"ball", 3, "ball(x, y, z, radius)"},
    {"box", 0, "box(x0, x1, y0, y1), or with z0, z1 behind them"},
    {"polygon", 2, "polygon(x1, y1, x2, y2, x3, y3, …)"},
    {"below", 0, "below(f), which is where f < 0"},
    {"implicit", 0, "implicit(f), which is where f < 0"}};

// Values (N) of a formula at points (N, S) of some of its variables.
Tensor values_of(const Expression& formula, const std::vector<int64_t>& space,
                 size_t variables, const Tensor& points) {
  std::vector<Jet> all(variables,
                       Jet::constant(torch::zeros_like(points.select(1, 0))));
  for (size_t n = 0; n < space.size(); ++n) {
    all[static_cast<size_t>(space[n])] =
        Jet::constant(points.select(1, static_cast<int64_t>(n)));
  }
  return formula.evaluate({all, {}}).value();
}

// Of its numbers. UsageError says what is wrong with them.
std::shared_ptr<const Shape> made_of(const ShapeKind& kind,
                                     const std::vector<double>& n,
                                     size_t dimensions) {
  const auto write = fmt::format("write {}", kind.usage);
  const std::string name = kind.name;
  if (name == "polygon") {
    if (n.size() % 2 == 1) {
      throw UsageError(
          fmt::format("a polygon has two numbers for each corner, got {}",
                      n.size()),
          write);
    }
    std::vector<std::pair<double, double>> corners;
    for (size_t k = 0; k < n.size(); k += 2) {
      corners.emplace_back(n[k], n[k + 1]);
    }
    return std::make_shared<Polygon>(corners);
  }
  const size_t count = name == "box" ? 2 * dimensions : dimensions + 1;
  if (n.size() != count) {
    throw UsageError(
        fmt::format("{} takes {} numbers, got {}", name, count, n.size()),
        write);
  }
  if (name == "box") {
    Box box;
    for (size_t k = 0; k < count; k += 2) {
      if (!(n[k] < n[k + 1])) {
        throw UsageError(
            fmt::format("expected low < high, got [{}, {}]", n[k], n[k + 1]),
            write);
      }
      box.low.push_back(n[k]);
      box.high.push_back(n[k + 1]);
    }
    return std::make_shared<Cuboid>(box);
  }
  if (!(n.back() > 0)) {
    throw UsageError(
        fmt::format("the radius of a {} is above 0, got {}", name, n.back()),
        write);
  }
  return std::make_shared<Ball>(std::vector(n.begin(), n.end() - 1), n.back());
}

// What is inside, by recursive descent:
//   line    = part {("+" | "-") part}
//   part    = operand {"&" operand}
//   operand = name | "domain" | "(" line ")"
class InsideReader {
 public:
  InsideReader(const std::string& text,
               const std::vector<Region::Named>& shapes)
      : text_(text), tokens_(tokenize(text)), shapes_(shapes) {}

  Combination line() {
    auto found = sum();
    if (here().kind != Token::Kind::kEnd) {
      fail(fmt::format("unexpected '{}'", here().text),
           "write a + b, a - b, or a & b");
    }
    return found;
  }

 private:
  const Token& here() const { return tokens_[at_]; }
  [[noreturn]] void fail(const std::string& sentence,
                         const std::string& hint) const {
    throw SyntaxError(sentence, text_, here().at, here().length, hint);
  }

  Combination sum() {
    auto found = intersection();
    while (here().is("+") || here().is("-")) {
      const auto kind = here().is("+") ? Combination::Kind::kUnion
                                       : Combination::Kind::kDifference;
      ++at_;
      found = {kind, 0, {found, intersection()}};
    }
    return found;
  }

  Combination intersection() {
    auto found = operand();
    while (here().is("&")) {
      ++at_;
      found = {Combination::Kind::kIntersection, 0, {found, operand()}};
    }
    return found;
  }

  Combination operand() {
    if (here().is("(")) {
      if (++depth_ > kDeepestBrackets) fail("brackets nest too deeply", "");
      ++at_;
      auto found = sum();
      if (!here().is(")")) fail("expected ')'", "close the bracket");
      ++at_;
      --depth_;
      return found;
    }
    std::vector<std::string> names;
    for (const auto& [name, shape] : shapes_) names.push_back(name);
    const auto known = std::ranges::find(names, here().text);
    const bool is_name = here().kind == Token::Kind::kName;
    if (is_name && known != names.end()) {
      ++at_;
      return {Combination::Kind::kShape, known - names.begin(), {}};
    }
    if (!here().is_name(kWholeBox)) {
      const auto all = fmt::format("the shapes are {}, and {} is the whole box",
                                   fmt::join(names, ", "), kWholeBox);
      fail(is_name ? fmt::format("there is no shape {}", here().text)
                   : "expected a shape",
           is_name ? config::did_you_mean(here().text, names, all) : all);
    }
    ++at_;
    return {};
  }

  const std::string& text_;
  const std::vector<Token> tokens_;
  const std::vector<Region::Named>& shapes_;
  size_t at_ = 0;
  int depth_ = 0;
};

bool uses(const Combination& one, int64_t shape) {
  return (one.kind == Combination::Kind::kShape && one.shape == shape) ||
         std::ranges::any_of(one.parts, [shape](const Combination& part) {
           return uses(part, shape);
         });
}

}  // namespace

Box ProblemReader::space_box() const {
  Box box;
  for (const int64_t x : problem_.space()) {
    const auto& [low, high] = problem_.domain[static_cast<size_t>(x)];
    box.low.push_back(low);
    box.high.push_back(high);
  }
  return box;
}

void ProblemReader::read_shape(const Line& line) {
  expect_known(line, "a shape");
  const auto& tokens = line.tokens;
  const auto space = std::ssize(problem_.space());
  if (space < 2 || space > 3) {
    line.fail(fmt::format("shapes lie in two or three variables of space, and "
                          "the domain has {}",
                          space),
              tokens[0], "leave the shapes out: intervals are enough");
  }
  if (tokens[0].is_name(kWholeBox)) {
    line.fail("domain is the whole box", tokens[0], "choose another name");
  }
  const auto name = declared(line, tokens[0]);
  line.expect(1, "=", "write a shape as plate = disk(0, 0, 1)");
  try {
    shapes_.push_back({name, shape_of(line)});
  } catch (const SyntaxError&) {
    throw;
  } catch (const UsageError& error) {
    throw SyntaxError(error.what(), line.text, tokens[2].at,
                      line.end().at - tokens[2].at, error.hint());
  }
}

std::shared_ptr<const Shape> ProblemReader::shape_of(const Line& line) {
  const auto& kind = line.tokens[2];
  const auto space = std::ssize(problem_.space());
  std::vector<std::string> names;
  for (const auto& known : kShapeKinds) names.push_back(known.name);
  const auto found = std::ranges::find(names, kind.text);
  if (kind.kind != Token::Kind::kName || found == names.end()) {
    line.fail(fmt::format("unknown shape '{}'", kind.text), kind,
              config::did_you_mean(
                  kind.text, names,
                  fmt::format("the shapes are {}", fmt::join(names, ", "))));
  }
  const auto* const found_kind = kShapeKinds + (found - names.begin());
  const auto& [known, dimensions, usage] = *found_kind;
  const auto write = fmt::format("write {}", usage);
  if (dimensions != 0 && dimensions != space) {
    line.fail(fmt::format("a {} lies in {} variables of space, and the domain "
                          "has {}",
                          known, dimensions, space),
              kind,
              dimensions == 2 ? "write ball(…), box(…) or below(…)"
                              : "write disk(…), box(…) or below(…)");
  }
  line.expect(3, "(", write);
  const size_t last = line.tokens.size() - 2;
  line.expect(last > 3 ? last : last + 1, ")", write);
  const Part inner{line.tokens[3].end(), line.tokens[last].at};
  if (*found == "below" || *found == "implicit") {
    return level_set_of(line, inner);
  }
  std::vector<double> n;
  int depth = 0;
  size_t from = inner.from;
  for (size_t i = 4; i <= last; ++i) {
    const auto& token = line.tokens[i];
    depth += token.is("(") ? 1 : token.is(")") ? -1 : 0;
    if (i < last && (depth > 0 || !token.is(","))) continue;
    n.push_back(constant(line, {from, token.at}));
    from = token.end();
  }
  return made_of(*found_kind, n, static_cast<size_t>(space));
}

std::shared_ptr<const Shape> ProblemReader::level_set_of(const Line& line,
                                                         Part formula) {
  const auto f = Expression::parse(line.text, problem_.symbols, formula);
  if (!f.derivatives().empty() || f.variables().contains(problem_.time())) {
    throw UsageError("a shape is a formula of the variables of space alone",
                     "leave fields and time out of it");
  }
  const auto space = problem_.space();
  const auto count = problem_.domain.size();
  std::vector<Expression> slopes;
  for (const int64_t x : space) slopes.push_back(f.derivative(x));
  return std::make_shared<LevelSet>(
      [=](const Tensor& points) { return values_of(f, space, count, points); },
      [=](const Tensor& points) {
        std::vector<Tensor> columns;
        for (const auto& slope : slopes) {
          columns.push_back(values_of(slope, space, count, points));
        }
        return torch::stack(columns, 1);
      },
      space_box());
}

void ProblemReader::read_inside(const std::string& text) {
  const auto part = trimmed(text, {0, text.size()});
  const bool is_said = part.from < part.to;
  if (shapes_.empty()) {
    if (!is_said) return;
    throw SyntaxError("there are no shapes", text, part.from,
                      part.to - part.from,
                      "add them, such as shapes: plate = disk(0, 0, 1)");
  }
  if (!is_said && shapes_.size() > 1) {
    throw ProblemError(
        "inside", -1, "which shapes are inside is not said",
        fmt::format("write inside: {} - {}", shapes_[0].name, shapes_[1].name));
  }
  const auto combination =
      InsideReader(is_said ? text : shapes_[0].name, shapes_).line();
  for (int64_t n = 0; n < std::ssize(shapes_); ++n) {
    if (uses(combination, n)) continue;
    const auto& name = shapes_[static_cast<size_t>(n)].name;
    throw ProblemError("shapes", n,
                       fmt::format("{} is not a part of what is inside", name),
                       fmt::format("write it there, or leave {} out", name));
  }
  const auto region =
      std::make_shared<const Region>(space_box(), shapes_, combination);
  expect_within_box(*region);
  problem_.region = region;
  problem_.inside =
      is_said ? text.substr(part.from, part.to - part.from) : shapes_[0].name;
}

void ProblemReader::expect_within_box(const Region& region) const {
  if (const auto beyond = region.beyond_box()) {
    const auto& [shape, axis, at, by] = *beyond;
    const auto x =
        static_cast<size_t>(problem_.space()[static_cast<size_t>(axis)]);
    const auto& variable = problem_.symbols.variables[x];
    const auto& name = shapes_[static_cast<size_t>(shape)].name;
    throw ProblemError(
        "shapes", shape,
        fmt::format("{} leaves the domain by {:.3g}: it goes to {}={:.4g}, and "
                    "{} is in [{:g}, {:g}]",
                    name, by, variable, at, variable, problem_.domain[x].low,
                    problem_.domain[x].high),
        fmt::format("widen the interval of {}, or cut it: {} & {}", variable,
                    kWholeBox, name));
  }
  if (region.share() == 0) {
    throw ProblemError("inside", -1, "the domain is empty: nothing is inside",
                       "a - b is what is in a and not in b");
  }
  if (region.share() < kLeastShare) {
    throw ProblemError(
        "inside", -1,
        fmt::format("what is inside is only {:.2g} of the domain's box",
                    region.share()),
        "draw the intervals of the domain closer around it");
  }
}

void ProblemReader::read_edge(const Line& line, size_t colon) {
  const auto& name = line.tokens[1];
  std::vector<std::string> names;
  for (const auto& shape : shapes_) names.push_back(shape.name);
  const auto found = std::ranges::find(names, name.text);
  if (found == names.end()) {
    line.fail(fmt::format("there is no shape {}", name.text), name,
              config::did_you_mean(
                  name.text, names,
                  fmt::format("the shapes are {}", fmt::join(names, ", "))));
  }
  const int64_t shape = found - names.begin();
  if (problem_.region->share_of_part(shape) == 0) {
    line.fail(fmt::format("the edge of {} does not bound the domain", *found),
              name, "ask for something on a part that does");
  }
  add_on_edge(line, shape, {line.tokens[colon].end(), line.text.size()});
}

void ProblemReader::add_on_edge(const Line& line, int64_t shape, Part formula) {
  const Normal normal{.space = problem_.space()};
  for (auto& residual : residuals(line, formula, problem_.symbols, &normal)) {
    problem_.conditions.push_back({Condition::Kind::kEdge,
                                   -1,
                                   0,
                                   std::move(residual),
                                   {},
                                   line.text,
                                   shape});
  }
}

void ProblemReader::expect_face(const Line& line, int64_t variable,
                                double at) const {
  if (!problem_.region || variable == problem_.time()) return;
  const auto space = problem_.space();
  const auto axis = std::ranges::find(space, variable) - space.begin();
  const auto& interval = problem_.domain[static_cast<size_t>(variable)];
  if (problem_.region->share_of_face(axis, at == interval.high) > 0) return;
  line.fail(fmt::format("the domain has no part of its edge at {}={}",
                        line.tokens[1].text, at),
            line.tokens[1], "write on boundary, or on the name of a shape");
}

void ProblemReader::add_on_face(const Line& line, int64_t variable, double at,
                                Part formula) {
  std::optional<Normal> normal;
  if (variable != problem_.time()) {
    normal = Normal{problem_.space(), {}};
    const bool high = at == problem_.domain[static_cast<size_t>(variable)].high;
    for (const int64_t x : normal->space) {
      normal->components.push_back(x != variable ? 0 : high ? 1 : -1);
    }
  }
  for (auto& residual : residuals(line, formula, problem_.symbols,
                                  normal ? &*normal : nullptr)) {
    problem_.conditions.push_back({Condition::Kind::kEquation,
                                   variable,
                                   at,
                                   std::move(residual),
                                   {},
                                   line.text});
  }
}

}  // namespace propagator::pde
