#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace propagator::autodiff {

class Table;

// The names that a text may use. pi and e are always known.
struct Symbols {
  std::vector<std::string> variables, fields;
  std::map<std::string, double> constants;
  std::vector<std::string> unknowns = {};  // numbers that are to be found
  // Names of formulas of variables, constants and unknowns, and their texts.
  std::map<std::string, std::string> coefficients = {};
  // Functions that numbers on a grid give, by their names.
  std::map<std::string, std::shared_ptr<const Table>> tables = {};
  // psi: its parts are the fields psi_re and psi_im.
  std::vector<std::string> complex_fields = {};
  std::string time = {};  // a variable; of no name: t, or else time
  // How many of the variables, the last ones, are no places but the normal of
  // an edge.
  size_t beside = 0;
};

// ∂^α of a field, α being `orders`, one for each variable; all zeros is the
// field itself.
struct Derivative {
  int64_t field = 0;
  std::vector<int64_t> orders;

  int64_t order() const;
  // "u_xt", or "d(d(u, x), t)" where the short form would read as another.
  std::string text(const Symbols& symbols) const;

  auto operator<=>(const Derivative&) const = default;
};

// Σ f ∂²/∂xᵢ²: the orders of second derivatives by one variable each, and
// their factors.
using SecondOrderSum = std::map<std::vector<int64_t>, double>;

// What "u" or "u_xt" means, if it is the name of a field, or of a field and,
// after an underscore, of variables.
std::optional<Derivative> derivative_named(const std::string& name,
                                           const Symbols& symbols);

// `text` as names of variables, one after the other and the longest first:
// how often each occurs, or, if that fails, how many bytes could be read.
struct VariableSplit {
  std::optional<std::vector<int64_t>> orders;
  size_t read = 0;
};
VariableSplit split_into_variables(std::string_view text,
                                   const std::vector<std::string>& variables);

}  // namespace propagator::autodiff
