// What users write: configurations, -s on the command line, formulas and
// problems.

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "fuzz/target.h"
#include "propagator/core/files.h"
#include "propagator/data/byte_pairs.h"
#include "propagator/pde/text/problem.h"
#include "propagator/run/experiment.h"
#include "propagator/run/simulation.h"

namespace propagator::fuzz {
namespace {

// Its resolved copy, which every run keeps, is the same experiment, or the same
// simulation.
template <class Resolved>
void expect_same(const Resolved& resolved, const Resolved& copy) {
  expect(copy.yaml() == resolved.yaml(), "a resolved configuration reads back");
  expect(copy.hash() == resolved.hash(), "and has the same hash");
}

void read_document(const config::Document& document) {
  const auto again = [](const auto& resolved) {
    return config::Document::from_text(resolved.yaml(), "copy");
  };
  if (const auto simulator = run::simulator_of(document)) {
    const run::Simulation simulation(*simulator, document);
    expect_same(simulation, run::Simulation(*simulator, again(simulation)));
    return;
  }
  const run::Experiment experiment(document);
  experiment.remarks({});
  expect_same(experiment, run::Experiment(again(experiment)));
}

void read_config(const std::string& bytes) {
  read_document(config::Document::from_text(bytes, "fuzz"));
}

// A line each, on the least configuration of the task that the first names.
void read_overrides(const std::string& bytes) {
  config::Document document;
  std::istringstream lines(bytes);
  for (std::string line; std::getline(lines, line);) {
    document.override_with(line);
  }
  read_document(document);
}

// A formula that prints and parses to the same tree.
void expect_same_formula(const pde::Expression& formula,
                         const pde::Symbols& symbols) {
  expect(pde::Expression::parse(formula.text(), symbols) == formula,
         "a formula's text parses to the same formula");
}

void read_expression(const std::string& bytes) {
  static const pde::Symbols symbols{.variables = {"x", "t", "yy"},
                                    .fields = {"u", "v", "w_re", "w_im"},
                                    .constants = {{"c", 2}},
                                    .coefficients = {{"k", "1 + sin(x)*yy"}},
                                    .complex_fields = {"w"}};
  for (const auto& formula : pde::Expression::parse_equations(bytes, symbols)) {
    expect_same_formula(formula, symbols);
    formula.derivatives();
    formula.under_roots();
    formula.factors_of_order(2);
    expect_same_formula(formula.without(formula.derivatives()), symbols);
    expect_same_formula(formula.derivative(0), symbols);
  }
}

// The lists of a problem, a line for an item and an empty line between lists.
pde::ProblemText problem_of(const std::string& bytes) {
  pde::ProblemText text;
  std::istringstream lines(bytes);
  std::string line;
  std::vector<std::string> inside;
  for (auto* list : {&text.domain, &text.fields, &text.parameters,
                     &text.equations, &text.conditions, &text.exact,
                     &text.coefficients, &text.shapes, &inside}) {
    while (std::getline(lines, line) && !line.empty()) list->push_back(line);
  }
  if (!inside.empty()) text.inside = inside.front();
  std::getline(lines, text.time);
  return text;
}

void read_problem(const std::string& bytes) {
  const auto problem = pde::Problem::parse(problem_of(bytes));
  problem.describe();
  problem.second_order_sum();
  for (const auto& equation : problem.equations) {
    expect_same_formula(equation, problem.symbols);
  }
}

// A text as tokens: of byte pairs that come back whatever it is, and of
// characters where it is UTF-8.
void read_tokens(const std::string& bytes) {
  const data::BytePairTokenizer pairs(data::learn_byte_pairs(bytes, 20));
  expect(pairs.decode(pairs.encode(bytes)) == bytes, "byte pairs come back");
  auto characters = data::characters_of(bytes);
  std::string text;
  for (const char32_t c : characters) text += data::utf8(c);
  expect(text == bytes, "characters come back");
  const data::CharacterTokenizer tokenizer(std::move(characters));
  expect(tokenizer.decode(tokenizer.encode(bytes)) == bytes,
         "tokens of characters come back");
}

std::vector<std::string> token_seeds() {
  return {"the cat and the hat: the theme of the thesis\n  the  end\n",
          "na\u00efve \u2013 \u65e5\u672c \U0001f600\r\n\tx*x = 4.5e-3;"};
}

std::vector<fs::path> yaml_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// Those that begin from no other, as they are, and one of each task with every
// key.
std::vector<std::string> config_seeds(const fs::path& source) {
  std::vector<std::string> seeds;
  for (const char* folder : {"configs", "problems"}) {
    for (const auto& path : yaml_files(source / folder)) {
      const auto text = read_file(path);
      if (text.find("\nfrom: ") == std::string::npos) seeds.push_back(text);
    }
  }
  for (const char* name :
       {"configs/forecast/tiny.yaml", "configs/locate/corners.yaml",
        "problems/wave.yaml"}) {
    const run::Experiment experiment(
        config::Document::from_file(source / name));
    seeds.push_back(config::to_yaml(experiment.schema(), false));
  }
  return seeds;
}

// key=value, or key=["value", "value"] of a list.
std::string assignment(const std::string& key,
                       const config::Document::Entry& entry) {
  if (!entry.list) return fmt::format("{}={}\n", key, entry.text);
  std::vector<std::string> items;
  config::parse(entry.text, {}, items);
  return fmt::format("{}=[\"{}\"]\n", key, fmt::join(items, "\", \""));
}

// Every key of every configuration and problem.
std::vector<std::string> override_seeds(const fs::path& source) {
  std::vector<std::string> seeds;
  for (const char* folder : {"configs", "problems"}) {
    for (const auto& path : yaml_files(source / folder)) {
      const auto document = config::Document::from_file(path);
      auto& lines = seeds.emplace_back();
      for (const auto& [key, entry] : document.entries()) {
        lines += assignment(key, entry);
      }
    }
  }
  return seeds;
}

std::string lines_of(const config::Document& document, const char* list) {
  auto text = document.get(std::string("problem.") + list).value_or("");
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<std::string> problem_seeds(const fs::path& source) {
  std::vector<std::string> seeds;
  for (const auto& path : yaml_files(source / "problems")) {
    const auto document = config::Document::from_file(path);
    std::string seed;
    for (const char* list :
         {"domain", "fields", "parameters", "equations", "conditions", "exact",
          "coefficients", "shapes", "inside", "time"}) {
      const auto lines = lines_of(document, list);
      seed += lines.empty() ? "\n" : lines + "\n\n";
    }
    seeds.push_back(seed);
  }
  return seeds;
}

std::vector<std::string> expression_seeds() {
  return {"u_tt - 4*u_xx",
          "u_t + u*u_x - (0.01/pi)*u_xx = 0",
          "v_xt = -c^2*sin(pi*x)*exp(-t**2/2) + 1e-3",
          "d(d(u^2, x), t, 2) + abs(v)*sign(u)/sqrt(1 + x^2)",
          "tanh(sinh(log(cosh(tan(cos(yy) + 2.5) + e)))) - u_xxyyyy",
          "((x + 1)*(t - 1)/(yy))^-2^x",
          "div(k*grad(u)) - dot((v, 2), grad(v)) + laplacian(u)",
          "if(x <= 0.5, max(u, k), min(v, 0)) + heaviside(t - 1)",
          "i*w_t + conj(w_xx) + abs(w)^2*w/exp(i*x) - re(w)"};
}

}  // namespace

std::vector<Target> text_targets(const fs::path& source) {
  return {{"config", read_config, [=] { return config_seeds(source); }},
          {"override", read_overrides, [=] { return override_seeds(source); }},
          {"expression", read_expression, expression_seeds},
          {"problem", read_problem, [=] { return problem_seeds(source); }},
          {"tokens", read_tokens, token_seeds}};
}

}  // namespace propagator::fuzz
