#include "propagator/pde/text/typeset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "propagator/pde/text/tokens.h"

namespace propagator::pde {
namespace {

using autodiff::Symbols;

// How tightly the outermost operation of a formula binds.
enum class Level { kSum, kProduct, kPower, kAtom };

// What its last part is, which decides how a product of it looks.
enum class Kind { kPlain, kNumber, kWord, kFunction };

struct Math {
  std::string mathml;
  Level level = Level::kAtom;
  Kind kind = Kind::kPlain;

  std::string within(Level needed) const {
    return level < needed ? bracketed() : mathml;
  }
  std::string bracketed() const {
    return fmt::format("<mrow><mo>(</mo>{}<mo>)</mo></mrow>", mathml);
  }
};

constexpr const char* kMinus = "<mo form=\"prefix\">−</mo>";

constexpr std::array<std::pair<std::string_view, const char*>, 30> kGreek{
    {{"alpha", "α"}, {"beta", "β"},  {"gamma", "γ"},   {"delta", "δ"},
     {"eps", "ε"},   {"zeta", "ζ"},  {"epsilon", "ε"}, {"eta", "η"},
     {"theta", "θ"}, {"iota", "ι"},  {"kappa", "κ"},   {"lambda", "λ"},
     {"mu", "μ"},    {"nu", "ν"},    {"xi", "ξ"},      {"pi", "π"},
     {"rho", "ρ"},   {"sigma", "σ"}, {"tau", "τ"},     {"phi", "φ"},
     {"chi", "χ"},   {"psi", "ψ"},   {"omega", "ω"},   {"Gamma", "Γ"},
     {"Delta", "Δ"}, {"Theta", "Θ"}, {"Lambda", "Λ"},  {"Phi", "Φ"},
     {"Psi", "Ψ"},   {"Omega", "Ω"}}};

// Names and numbers of the text are letters, digits and underscores alone, so
// that nothing in them reads as markup.
std::string letter(const std::string& name) {
  const auto* const greek = std::ranges::find(
      kGreek, name, &std::pair<std::string_view, const char*>::first);
  return fmt::format("<mi>{}</mi>",
                     greek == kGreek.end() ? name : greek->second);
}

// Indices behind the underscore: variables one by one, where it is of them.
std::string indices(const std::string& text, const Symbols& symbols) {
  const auto split = autodiff::split_into_variables(text, symbols.variables);
  if (!split.orders) return letter(text);
  std::string all = "<mrow>";
  for (size_t x = 0; x < split.orders->size(); ++x) {
    for (int64_t n = 0; n < (*split.orders)[x]; ++n) {
      all += letter(symbols.variables[x]);
    }
  }
  return all + "</mrow>";
}

// u_xx and x2 have an index.
std::string named(const std::string& name, const Symbols& symbols) {
  if (const auto line = name.find('_');
      line != std::string::npos && line > 0 && line + 1 < name.size()) {
    return fmt::format("<msub>{}{}</msub>", letter(name.substr(0, line)),
                       indices(name.substr(line + 1), symbols));
  }
  const auto digits = name.find_last_not_of("0123456789") + 1;
  if (digits == 0 || digits == name.size()) return letter(name);
  return fmt::format("<msub>{}<mn>{}</mn></msub>",
                     letter(name.substr(0, digits)), name.substr(digits));
}

// 1e-3 as a power of ten.
Math numeral(const Token& token) {
  const auto mark = token.text.find_first_of("eE");
  if (mark == std::string::npos) {
    return {fmt::format("<mn>{}</mn>", token.text), Level::kAtom,
            Kind::kNumber};
  }
  const auto power =
      token.text.substr(token.text[mark + 1] == '+' ? mark + 2 : mark + 1);
  const auto ten =
      power[0] == '-'
          ? fmt::format(
                "<msup><mn>10</mn><mrow><mo "
                "form=\"prefix\">−</mo><mn>{}</mn></mrow>"
                "</msup>",
                power.substr(1))
          : fmt::format("<msup><mn>10</mn><mn>{}</mn></msup>", power);
  const auto mantissa = token.text.substr(0, mark);
  if (mantissa == "1") return {ten, Level::kPower, Kind::kNumber};
  return {fmt::format("<mn>{}</mn><mo>·</mo>{}", mantissa, ten),
          Level::kProduct, Kind::kNumber};
}

std::string raised(const Math& base, const Math& exponent) {
  return fmt::format("<msup><mrow>{}</mrow><mrow>{}</mrow></msup>",
                     base.within(Level::kAtom), exponent.mathml);
}

Math product_of(const Math& a, const Math& b) {
  const bool apart =
      b.kind == Kind::kNumber || b.kind == Kind::kWord || a.kind == Kind::kWord;
  const char* const times = apart ? "<mo>·</mo>"
                            : b.kind == Kind::kFunction
                                ? "<mspace width=\"0.17em\"/>"
                                : "<mo>&#x2062;</mo>";
  return {a.within(Level::kProduct) + times + b.within(Level::kPower),
          Level::kProduct, b.kind};
}

std::string fraction(const std::string& over, const std::string& under) {
  return fmt::format("<mfrac><mrow>{}</mrow><mrow>{}</mrow></mfrac>", over,
                     under);
}

// A nabla, and what it acts on.
Math operated(const char* nabla, const Math& on) {
  return {fmt::format("<mrow>{}{}</mrow>", nabla, on.within(Level::kAtom)),
          Level::kPower};
}

class Typesetter {
 public:
  Typesetter(const std::string& line, const Symbols& symbols)
      : tokens_(tokenize(line)), symbols_(symbols) {}

  std::string line() {
    std::string all;
    while (here().kind != Token::Kind::kEnd) {
      if (is_word()) {
        const auto word = take().text;
        all += fmt::format("<mtext>{}{}</mtext>", word,
                           here().is(":") ? "" : "&#xa0;");
      } else if (starts_formula()) {
        all += sum().mathml;
      } else {
        all += sign(take());
      }
    }
    return all;
  }

 private:
  const Token& here() const { return tokens_[at_]; }
  Token take() { return tokens_[at_++]; }
  bool take(const char* symbol) {
    if (!here().is(symbol)) return false;
    ++at_;
    return true;
  }

  bool is_word() const {
    return std::ranges::any_of(
        std::array{"at", "on", "periodic", "complex", "boundary"},
        [this](const char* word) { return here().is_name(word); });
  }
  bool starts_formula() const {
    if (here().is_name("in")) return false;
    return here().kind == Token::Kind::kNumber ||
           here().kind == Token::Kind::kName || here().is("(") ||
           here().is("-") || here().is("+");
  }

  static std::string sign(const Token& token) {
    if (token.is_name("in")) return "<mo>∈</mo>";
    if (token.is(":")) return "<mo>:</mo><mspace width=\"0.6em\"/>";
    if (token.is("<=")) return "<mo>≤</mo>";
    if (token.is(">=")) return "<mo>≥</mo>";
    if (token.is("<")) return "<mo>&lt;</mo>";
    if (token.is(">")) return "<mo>&gt;</mo>";
    if (token.is("&")) return "<mo>∩</mo>";
    return fmt::format("<mo>{}</mo>", token.text);
  }

  Math sum() {
    const bool minus = here().is("-");
    if (minus || here().is("+")) ++at_;
    auto all = product();
    if (minus) {
      all = {kMinus + all.within(Level::kProduct), Level::kSum};
    }
    while (here().is("+") || here().is("-")) {
      const char* sign = take().is("-") ? "<mo>−</mo>" : "<mo>+</mo>";
      all = {all.mathml + sign + product().within(Level::kProduct),
             Level::kSum};
    }
    return all;
  }

  Math product() {
    auto all = power();
    while (here().is("*") || here().is("/")) {
      const bool times = take().is("*");
      const auto next = power();
      all = times ? product_of(all, next)
                  : Math{fraction(all.mathml, next.mathml), Level::kPower};
    }
    return all;
  }

  Math power() {
    const auto base = operand();
    if (!take("^")) return base;
    const bool minus = here().is("-");
    if (minus || here().is("+")) ++at_;
    auto exponent = power();
    if (minus) {
      exponent.mathml = kMinus + exponent.within(Level::kProduct);
    }
    return {raised(base, exponent), Level::kPower, base.kind};
  }

  Math operand() {
    if (here().kind == Token::Kind::kEnd) return {"<mi></mi>"};
    const auto token = take();
    if (token.kind == Token::Kind::kNumber) return numeral(token);
    if (token.is("(")) {
      const auto inner = list();
      return inner.size() == 1 ? inner[0] : vector(inner);
    }
    if (token.kind != Token::Kind::kName) return {sign(token)};
    if (take("(")) return called(token.text);
    return name(token.text);
  }

  Math name(const std::string& text) const {
    const auto mathml = named(text, symbols_);
    const bool word = mathml == fmt::format("<mi>{}</mi>", text);
    return {mathml, Level::kAtom,
            word && text.size() > 1 ? Kind::kWord : Kind::kPlain};
  }

  // What stands between brackets, up to the closing one.
  std::vector<Math> list() {
    std::vector<Math> all;
    do {
      if (here().is(")")) break;
      all.push_back(sum());
      if (here().is("<") || here().is("<=") || here().is(">") ||
          here().is(">=")) {
        all.back().mathml += sign(take());
        all.back().mathml += sum().mathml;
      }
    } while (take(","));
    take(")");
    return all;
  }

  static Math vector(const std::vector<Math>& components) {
    std::string all;
    for (const auto& one : components) {
      all += (all.empty() ? "" : "<mo>,</mo>") + one.mathml;
    }
    return {Math{all}.bracketed()};
  }

  Math called(const std::string& name) {
    const auto of = list();
    if (of.size() == 1) {
      if (const auto known = of_one(name, of[0])) return *known;
    }
    if (name == "div" && of.size() > 1) {
      return operated("<mo>∇</mo><mo>·</mo>", vector(of));
    }
    if (name == "dot" && of.size() == 2) {
      return {of[0].within(Level::kPower) + "<mo>·</mo>" +
                  of[1].within(Level::kPower),
              Level::kProduct};
    }
    if (name == "d" && (of.size() == 2 || of.size() == 3)) return derived(of);
    if (name == "if" && of.size() == 3) {
      return {
          fmt::format("<mrow><mo>{{</mo><mtable displaystyle=\"true\">"
                      "<mtr><mtd>{}</mtd><mtd><mtext>where&#xa0;</mtext>{}"
                      "</mtd></mtr><mtr><mtd>{}</mtd><mtd><mtext>elsewhere"
                      "</mtext></mtd></mtr></mtable></mrow>",
                      of[1].mathml, of[0].mathml, of[2].mathml)};
    }
    return {named(name, symbols_) + "<mo>&#x2061;</mo>" + vector(of).mathml,
            Level::kPower, Kind::kFunction};
  }

  static std::optional<Math> of_one(const std::string& name, const Math& x) {
    if (name == "exp") {
      return Math{raised({"<mi>e</mi>"}, x), Level::kPower};
    }
    if (name == "sqrt") return Math{fmt::format("<msqrt>{}</msqrt>", x.mathml)};
    if (name == "abs") {
      return Math{fmt::format("<mrow><mo>|</mo>{}<mo>|</mo></mrow>", x.mathml)};
    }
    if (name == "conj") {
      return Math{
          fmt::format("<mover><mrow>{}</mrow><mo>¯</mo></mover>", x.mathml)};
    }
    if (name == "grad") return operated("<mo>∇</mo>", x);
    if (name == "div") return operated("<mo>∇</mo><mo>·</mo>", x);
    if (name == "laplacian") return operated("<mo>Δ</mo>", x);
    return {};
  }

  // d(f, x) or d(f, x, n).
  static Math derived(const std::vector<Math>& of) {
    const auto order = [&](const std::string& base) {
      return of.size() == 2 ? base
                            : fmt::format("<msup>{}<mrow>{}</mrow></msup>",
                                          base, of[2].mathml);
    };
    return {fraction(order("<mi>∂</mi>"), "<mi>∂</mi>" + order(of[1].mathml)) +
                of[0].within(Level::kPower),
            Level::kProduct};
  }

  const std::vector<Token> tokens_;
  const Symbols& symbols_;
  size_t at_ = 0;
};

}  // namespace

std::string typeset(const std::string& line, const Symbols& symbols) {
  return fmt::format("<math displaystyle=\"true\">{}</math>",
                     Typesetter(line, symbols).line());
}

}  // namespace propagator::pde
