#pragma once

#include <string_view>
#include <vector>

#include "propagator/pde/text/expression_value.h"

namespace propagator::pde {

// What is called like a function and takes more than one number, or vectors and
// complex numbers: max min re im conj grad div laplacian dot. Where a text has
// declared the name, it is what that says.
struct Operator {
  const char* name;
  size_t fewest, most;  // arguments
  const char* usage;
  // FoldingError where the arguments do not allow it.
  Value (*of)(const std::vector<Value>& arguments, const Symbols& symbols);
};
const Operator* find_operator(std::string_view name);
// As users write them, with `if`.
std::vector<std::string> operator_names();

}  // namespace propagator::pde
