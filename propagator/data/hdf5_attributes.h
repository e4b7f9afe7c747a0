#pragma once

#include <string>
#include <vector>

#include "propagator/data/hdf5_handle.h"

namespace propagator::data {

// Attributes of an HDF5 file, group or array, as far as they can be read: those
// that are missing, of another kind, or of more than 4096 entries are empty.
std::vector<std::string> attribute_names(hid_t object);
// One text or a list of them, of fixed or any length.
std::vector<std::string> text_attribute(hid_t object, const char* name);
// Numbers, and truth as 1 and 0, which others write as an enumeration.
std::vector<double> number_attribute(hid_t object, const char* name);

// A filter of an array that this build of HDF5 has not, by its name and number;
// empty if it has all.
std::string missing_filter(hid_t dataset);

}  // namespace propagator::data
