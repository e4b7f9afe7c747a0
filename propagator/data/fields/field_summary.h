#pragma once

#include "propagator/data/fields/field_source.h"

namespace propagator::data {

// All numbers of a channel, or of what else is one number of each case.
struct FieldRange {
  double smallest, largest, mean, deviation;
};

// Of each channel, reading some cases at a time.
std::vector<FieldRange> channel_ranges(const FieldSource& source);
std::vector<FieldRange> parameter_ranges(const FieldSource& source);
std::vector<FieldRange> constant_ranges(const FieldSource& source);

// The source as a file of ours (field_file.h), .h5 or .npz: some cases at a
// time into .h5. It is there when it is complete, or not at all. `note` is
// added to what the layout says; a split that files have of their own stays.
void write_fields(const FieldSource& source, const std::filesystem::path& out,
                  nlohmann::json note);

}  // namespace propagator::data
