#pragma once

#include <vector>

#include "propagator/data/simulator.h"

namespace propagator::data {

// Rows of `propagator data validate`: bands are those of theory.
std::vector<Validation> advection_validations();
std::vector<Validation> blobs_validations();
std::vector<Validation> burgers_validations();
std::vector<Validation> diffusion_reaction_validations();
std::vector<Validation> gray_scott_validations();
std::vector<Validation> heat_fields_validations();
std::vector<Validation> plates_validations();
std::vector<Validation> shallow_water_validations();
std::vector<Validation> vorticity_validations();

}  // namespace propagator::data
