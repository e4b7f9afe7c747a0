#pragma once

#include <filesystem>
#include <vector>

#include "propagator/data/csv.h"
#include "propagator/tasks/surrogate.h"

namespace propagator::run {

// Answers at points for ParaView and other VTK readers: .vti, an image, if the
// points are an even grid, or .vtp for any. Up to three variables are x, y and
// z, in their order; of more those that are the same at all points are left
// out.

bool is_vtk(const std::filesystem::path& path);

// UsageError unless the model answers at points, with a number of each variable
// and each answer.
void expect_points(const std::filesystem::path& path,
                   const std::vector<tasks::Surrogate::Port>& inputs,
                   const std::vector<tasks::Surrogate::Port>& outputs);

// `variables` are the points', `answers` what is known there; all of one shape.
// UsageError if these points cannot be written so.
void write_vtk_answers(const std::filesystem::path& path,
                       const std::vector<data::Column>& variables,
                       const std::vector<data::Column>& answers);

}  // namespace propagator::run
