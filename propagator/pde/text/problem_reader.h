#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "propagator/pde/text/problem.h"
#include "propagator/pde/text/tokens.h"

namespace propagator::pde {

// Reads the items of a problem, one list after the other, each with what the
// lists before it have declared. SyntaxErrors leave as ProblemErrors.
class ProblemReader {
 public:
  Problem read(const ProblemText& text);

 private:
  // One item, its tokens, and how to point into it.
  struct Line {
    const std::string& text;
    std::vector<Token> tokens;

    explicit Line(const std::string& item)
        : text(item), tokens(tokenize(item)) {}
    const Token& end() const { return tokens.back(); }
    [[noreturn]] void fail(const std::string& sentence, const Token& token,
                           const std::string& hint = "") const;
    // SyntaxError unless token `i` is that symbol; `usage` is the hint.
    void expect(size_t i, const char* symbol, const std::string& usage) const;
  };

  // Variables and fields before they are read, for messages.
  void note_names(const ProblemText& text);
  void read_parameter(const Line& line);
  void read_unknown(const Line& line);
  // Where a line in the list of unknowns is a function, as k(x).
  void read_function(const Line& line);
  // The bounds "in [a, b]" at token `i`, the last of a line.
  Interval bounds_at(const Line& line, size_t i,
                     const std::string& usage) const;
  // SyntaxError if the line names an unknown; `true_ones`: those with a truth
  // may stand there.
  void expect_known(const Line& line, const char* where,
                    bool true_ones = false) const;
  // The same of coefficients that are made of unknowns.
  void expect_known_coefficients(const Line& line, const char* where,
                                 bool true_ones) const;
  void read_interval(const Line& line);
  void read_time(const std::string& name);
  void read_fields(const Line& line);
  void read_complex_fields(const Line& line);
  void read_table(const NumberTable& table);
  // A function of these variables, whose places are `axes`.
  void add_table(const std::string& name, const NumberTable& table,
                 const std::vector<int64_t>& own,
                 const std::vector<torch::Tensor>& axes);
  void expect_domain_covered(const std::string& name, const NumberTable& table,
                             const std::vector<int64_t>& own,
                             const std::vector<torch::Tensor>& nodes) const;
  void read_coefficient(const Line& line);
  // Of a derivative of a step, whose jump is not in it.
  void remark_on_steps(const Line& line);
  bool is_step(const Token& token) const;
  void read_equation(const Line& line);
  void read_condition(const Line& line);
  void read_exact(const Line& line);
  void read_shape(const Line& line);
  std::shared_ptr<const Shape> shape_of(const Line& line);
  std::shared_ptr<const Shape> level_set_of(const Line& line, Part formula);
  // The region that the shapes make, if there are any.
  void read_inside(const std::string& text);
  void expect_within_box(const Region& region) const;
  Box space_box() const;

  void read_periodic(const Line& line);
  // What "u(0, t) = 1" means, "on x=0: u = 1"; empty if it is no such line.
  std::string with_place(const Line& line) const;
  void read_boundary(const Line& line, size_t colon);
  void read_face(const Line& line, size_t colon);
  void read_edge(const Line& line, size_t colon);
  // SyntaxError if the domain does not reach that end of a variable.
  void expect_face(const Line& line, int64_t variable, double at) const;
  // The conditions of a formula at the end of a variable's interval, and on
  // the edge of a shape.
  void add_on_face(const Line& line, int64_t variable, double at, Part formula);
  void add_on_edge(const Line& line, int64_t shape, Part formula);
  double place(const Line& line, const Token& name, Part part) const;
  // One, or the real and the imaginary part; where there is an outward normal,
  // as on that edge.
  std::vector<Expression> residuals(const Line& line, Part part,
                                    const Symbols& symbols,
                                    const Normal* normal = nullptr) const;

  static bool is_reserved(const std::string& name);
  // Without the blanks around it, so that pictures point at characters.
  static Part trimmed(const std::string& text, Part part);
  // A new name, neither reserved nor used.
  std::string declared(const Line& line, const Token& name);
  void check_names() const;
  void check_unknowns() const;   // ProblemError
  void check_functions() const;  // ProblemError
  // What a line gives as the truth of functions is no solution of fields.
  void take_truths();
  // Derivatives of functions by variables that they do not have are 0.
  Expression without_constant_derivatives(const Expression& formula) const;
  int64_t variable(const Line& line, const Token& name) const;
  double constant(const Line& line, Part part) const;
  // Its number, as "c = 2" gives it.
  double value_of(const Line& line, const std::string& name) const;
  // Symbols with unknowns in place of their numbers.
  Symbols open_symbols() const;

  Problem problem_;
  std::set<std::string> names_;
  std::map<std::string, const char*> later_names_;  // to what they will be
  std::map<std::string, std::string> used_by_;      // parameters by parameters
  // Coefficients with unknowns left in them.
  std::map<std::string, std::string> open_coefficients_;
  std::set<std::string> steps_;  // coefficients that may jump
  std::vector<bool> has_exact_;
  std::vector<Region::Named> shapes_;
};

}  // namespace propagator::pde
