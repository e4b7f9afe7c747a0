#include "propagator/pde/text/complex_field.h"

#include <algorithm>

namespace propagator::pde {

std::vector<autodiff::Derivative> parts_named(
    const std::string& name, const autodiff::Symbols& symbols) {
  if (auto own = autodiff::derivative_named(name, symbols)) return {*own};
  auto whole = symbols;
  whole.fields = symbols.complex_fields;
  const auto named = autodiff::derivative_named(name, whole);
  if (!named) return {};
  const auto& field = whole.fields[static_cast<size_t>(named->field)];
  std::vector<autodiff::Derivative> parts;
  for (const char* part : {"_re", "_im"}) {
    const auto place = std::ranges::find(symbols.fields, field + part);
    parts.push_back({place - symbols.fields.begin(), named->orders});
  }
  return parts;
}

}  // namespace propagator::pde
