#include "propagator/pde/reference/spectral_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "propagator/core/error.h"

namespace propagator::pde {

SpectralPlan::SpectralPlan(const pde::Problem& p) : problem(p) {
  if (p.region) {
    throw UsageError("collocation needs a box, and this domain has shapes");
  }
  const size_t fields = p.symbols.fields.size(), variables = p.domain.size();
  if (p.equations.size() != fields) {
    throw UsageError(
        fmt::format("collocation needs as many equations as fields, got {} "
                    "and {}",
                    p.equations.size(), fields));
  }
  orders.assign(fields, std::vector<int64_t>(variables, 0));
  counts = orders;
  for (const auto& derivative : p.derivatives()) {
    auto& known = orders[static_cast<size_t>(derivative.field)];
    for (size_t x = 0; x < variables; ++x) {
      known[x] = std::max(known[x], derivative.orders[x]);
    }
  }
  rows.resize(variables);
  for (size_t x = 0; x < variables; ++x) {
    const auto give = [&](size_t f, Row row) {
      if (counts[f][x] == orders[f][x]) return false;
      ++counts[f][x];
      row.owner = static_cast<int64_t>(f);
      rows[x].push_back(row);
      return true;
    };
    // First to the fields that a condition names, then to any that lacks one.
    std::vector<Row> others;
    for (const auto& condition : p.conditions) {
      if (condition.variable != static_cast<int64_t>(x)) continue;
      const bool periodic = condition.is_periodic();
      for (size_t k = 0; k < (periodic ? condition.matched.size() : 1); ++k) {
        const Row row{&condition, periodic ? static_cast<int64_t>(k) : -1, 0};
        std::set<autodiff::Derivative> named;
        if (periodic) {
          named.insert(condition.matched[k]);
        } else {
          named = condition.residual.derivatives();
        }
        const bool given = std::ranges::any_of(named, [&](const auto& one) {
          return give(static_cast<size_t>(one.field), row);
        });
        if (!given) others.push_back(row);
      }
    }
    for (const auto& row : others) {
      bool given = false;
      for (size_t f = 0; f < fields && !given; ++f) given = give(f, row);
      if (!given) left_out.push_back(row.condition->text);
    }
  }
  const auto can_march = [&](size_t x) {
    return !rows[x].empty() && complete(x) &&
           std::ranges::all_of(rows[x], [&](const Row& row) {
             return row.matched < 0 && row.condition->at == p.domain[x].low;
           });
  };
  if (p.time() >= 0 && can_march(static_cast<size_t>(p.time()))) {
    marched = p.time();
  }
  for (size_t x = 0; x < variables && marched < 0; ++x) {
    if (can_march(x)) marched = static_cast<int64_t>(x);
  }
  for (size_t x = variables; x-- > 0;) {
    if (static_cast<int64_t>(x) != marched) divided = static_cast<int64_t>(x);
  }
}

bool SpectralPlan::divisible() const {
  return divided >= 0 && complete(static_cast<size_t>(divided));
}

bool SpectralPlan::complete(size_t variable) const {
  for (size_t f = 0; f < counts.size(); ++f) {
    if (counts[f][variable] != orders[f][variable]) return false;
  }
  return true;
}

}  // namespace propagator::pde
