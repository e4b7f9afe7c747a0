#pragma once

#include <span>

#include "propagator/report/figure.h"

namespace propagator::report {

// Fields over a plane of two variables, as a model gives them and as they are.
struct FieldMaps {
  std::string subject = "";  // what is solved and where: it tells which compare
  std::string model = "";    // whose answer it is: "pinnsformer"
  std::vector<std::string> names = {};  // of F fields
  Axis x = {}, y = {};
  double aspect = 1;            // height of a map, over its width
  torch::Tensor answer = {};    // (F, R, C); row 0 is at the top
  torch::Tensor truth = {};     // (F, R, C); undefined: not known
  std::string truth_name = "";  // "exact"
};

// A figure for maps like these, without any yet.
HeatMaps figure_of(const std::string& title, const FieldMaps& maps);

// One of several answers to the same question.
struct ComparedMaps {
  std::string title = "";   // above its fields
  std::string remark = "";  // above their errors: how large they are
  FieldMaps maps = {};
};

// Answers beside one another: the truth first, and below each answer |answer -
// truth|. Many of them go on in further lines. All of a field are on one scale,
// the truth's where it is known; so are all errors, on a logarithmic one, for a
// good answer beside a bad one would be a single colour on another.
HeatMaps compare(const std::string& title,
                 std::span<const ComparedMaps> answers);

}  // namespace propagator::report
