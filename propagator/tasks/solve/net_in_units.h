#pragma once

#include <memory>

#include "propagator/models/field_net.h"
#include "propagator/pde/residual/problem_scale.h"

namespace propagator::tasks {

// A network of a problem in units of its own: it sees each of the variables on
// [-1, 1] and answers in units of each field's size. `options` make it, for a
// domain in the problem's units. Without a scale it is the network itself.
std::shared_ptr<models::FieldNet> make_in_units(
    const models::FieldNetOptions& options, const models::FieldDomain& domain,
    const pde::ProblemScale& scale);

}  // namespace propagator::tasks
