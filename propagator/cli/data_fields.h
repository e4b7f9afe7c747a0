#pragma once

#include <nlohmann/json.hpp>

#include "propagator/cli/commands.h"
#include "propagator/data/fields/field_source.h"

namespace propagator::cli {

// What `data info` says of fields: shape, axes, ranges of channels and numbers.
nlohmann::json fields_json(const data::FieldSource& source);
void print_fields(const data::FieldSource& source);

// The first fields as a .png: some frames of a case or, of fields along a line,
// some cases over space and time.
void write_picture(const data::FieldSource& source,
                   const std::filesystem::path& out);

// `data convert IN OUT`.
void add_convert(CLI::App& verb, Action& action);

}  // namespace propagator::cli
