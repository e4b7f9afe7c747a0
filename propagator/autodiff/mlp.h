#pragma once

#include "propagator/autodiff/jet.h"
#include "propagator/kernels/jet/jet_mlp.h"

namespace propagator::autodiff {

// Linear layers with an activation between them, of jets (M; …, in) → (M; …,
// out); `net` need not have its `series`. In one kernel where there is one
// (kernels/jet/jet_mlp.h), else layer by layer. While a PointGradients lives on
// the thread it takes note.
Jet mlp(const Jet& x, kernels::JetMlp net);

// The rows of a layout.
kernels::JetSeries series_of(const JetLayout& layout);

}  // namespace propagator::autodiff
