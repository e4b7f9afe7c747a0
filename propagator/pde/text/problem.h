#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "propagator/autodiff/derivative_plan.h"
#include "propagator/core/error.h"
#include "propagator/pde/geometry/region.h"
#include "propagator/pde/text/expression.h"

namespace propagator::pde {

using autodiff::DerivativePlan;

// Numbers by name, as a file has them: of variables, and of functions of these
// at the nodes of a grid, in any order, or along axes.
struct NumberTable {
  std::string source;
  std::map<std::string, torch::Tensor> numbers;
};

// A problem as its user writes it, line by line:
//   domain      x in [0, 1]             parameters  c = 2
//   fields      u  or  u, v             equations   u_tt = c^2*u_xx
//   conditions  at t=0: u = sin(pi*x)   exact       u = sin(pi*x)*cos(pi*c*t)
//               on x=1: u_x + 2*u = 0
//               on boundary: u = 0      (all faces of all variables but time)
//               periodic x              or  periodic x: u, u_x
//   fields      complex psi             coefficients  k = 1 + 0.5*sin(x)
//   shapes      plate = disk(0, 0, 1)   inside      plate - hole
//               on plate: u_n = 0       (that shape's part of the edge)
// Bounds, places and parameters are numbers or formulas of (earlier)
// parameters; a coefficient is one of variables, parameters and earlier
// coefficients. `tables` are functions that coefficients, equations and
// conditions may name; they are smooth between nodes. A complex field is two,
// psi_re and psi_im. The variable named t, or else time, is time, if `time`
// names no other. A parameter of the equations may be unknown, `c = 1` in a
// list of its own: then this is where the search for it begins, and its number
// among the parameters, if it is there, the truth. `c in [0.1, 10]` keeps the
// search within bounds; `k(x)`, or `k(x) in [0.1, 10]`, is a function of these
// variables, whose truth, if it is known, stands in `exact`.
struct ProblemText {
  std::vector<std::string> domain = {};
  std::vector<std::string> fields = {};
  std::vector<std::string> parameters = {};
  std::vector<std::string> equations = {};
  std::vector<std::string> conditions = {};
  std::vector<std::string> exact = {};
  std::vector<std::string> unknown = {};
  std::vector<std::string> coefficients = {};
  std::string time = {};
  std::vector<std::string> shapes = {};
  std::string inside = "";
  std::vector<NumberTable> tables = {};
};

// What is wrong with a problem: in which list, at which item from 0, or -1 if
// it is what the list lacks. `what()` names them and has the picture.
class ProblemError : public UsageError {
 public:
  ProblemError(std::string list, int64_t item, const std::string& what,
               std::string hint = "");
  const std::string& list() const { return list_; }
  int64_t item() const { return item_; }

 private:
  std::string list_;
  int64_t item_;
};

struct Interval {
  double low = 0, high = 1;
};

// What must hold on one face of the domain, or on a shape's part of its edge;
// there the residual may name the components of the outward normal, as
// variables of their own behind the problem's.
struct Condition {
  enum class Kind { kEquation, kPeriodic, kEdge };

  Kind kind = Kind::kEquation;
  int64_t variable = 0;  // on a shape's edge: -1
  double at = 0;         // exactly low or high of the variable; periodic: low
  Expression residual;   // zero there
  std::vector<Derivative> matched;  // periodic: equal at low and high
  std::string text;                 // as written
  int64_t shape = -1;               // whose edge it is

  bool is_periodic() const { return kind == Kind::kPeriodic; }
  bool is_on_edge() const { return kind == Kind::kEdge; }
  // Whether both hold on one face; a periodic one has two of its own.
  bool shares_face_with(const Condition& other) const {
    return !is_periodic() && !other.is_periodic() &&
           variable == other.variable && at == other.at && shape == other.shape;
  }
  // All that it names.
  std::set<Derivative> derivatives() const;
  bool operator==(const Condition&) const = default;
};

// Whether conditions must be enough for one solution, or readings of the fields
// come to them.
enum class Posed { kByConditions, kByReadings };

// What equations and conditions leave free of a field that they name by
// derivatives alone.
enum class Freedom { kNone, kConstant, kFunctionOfTime };

// A parameter of the equations that is to be found.
struct Unknown {
  std::string name;
  double start = 1;
  std::optional<double> truth = {};
  std::optional<Interval> bounds = {};
};

// A function of some variables that is to be found: a field behind those that
// are solved for, whose derivatives by the other variables are 0.
struct UnknownFunction {
  int64_t field = 0;
  std::vector<int64_t> variables = {};
  std::optional<Interval> bounds = {};
  std::optional<Expression> truth = {};
};

struct Problem {
  Symbols symbols;
  std::vector<Interval> domain;  // one for each variable
  // Of the variables of space, if there are shapes; else the whole box.
  std::shared_ptr<const Region> region;
  std::string inside;                                      // as written
  std::vector<std::pair<std::string, double>> parameters;  // as they came
  std::vector<Unknown> unknowns;
  std::vector<UnknownFunction> functions;
  // Residuals, with the truth for unknowns, or else where their search begins.
  std::vector<Expression> equations;
  std::vector<Expression> open_equations;  // with unknowns left in them
  std::vector<Condition> conditions;
  std::vector<Expression> exact;     // one for each field, or none
  std::vector<std::string> remarks;  // what looks odd but may be meant

  // ProblemError says what is wrong, where.
  static Problem parse(const ProblemText& text,
                       Posed posed = Posed::kByConditions);

  int64_t time() const { return time_of(symbols); }
  std::vector<int64_t> space() const;  // all other variables
  // The fields that are solved for, the first ones; functions follow them.
  int64_t solved() const;
  // Whether the equations hold for each value of a variable by itself, as for a
  // range of a parameter: no derivative by it, and no condition on its faces.
  bool is_parameter(int64_t variable) const;
  int64_t parameter() const;  // the first such variable but time, or -1
  // Everything that the equations name, that the conditions do, or either.
  std::set<Derivative> derivatives() const;
  std::set<Derivative> derivatives_on_faces() const;
  std::set<Derivative> all_derivatives() const;
  Freedom freedom_of(int64_t field) const;
  DerivativePlan plan() const;  // of what the equations name
  // Σ f u_ii, if the equations name second derivatives by two variables or more
  // as multiples of this sum alone, and the conditions name none; else empty.
  SecondOrderSum second_order_sum() const;
  // The exact fields on points (M; …, D): (M; …, F).
  Jet exact_fields(const Jet& points) const;
  std::string text(const UnknownFunction& function) const;  // "k(x)"
  std::string text(const autodiff::Table& table) const;     // "k(x, y)"
  // "on x=0: u_x - u = 0", as it was understood.
  std::string text(const Condition& condition) const;
  // What was understood, and how derivatives are computed, for people.
  std::string describe() const;
};

}  // namespace propagator::pde
