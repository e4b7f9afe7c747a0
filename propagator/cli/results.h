#pragma once

#include "propagator/run/train.h"

namespace propagator::cli {

// The table and the audit, for people; or the whole record as JSON. Returns the
// exit code.
int print_result(const run::TestResult& result, bool as_json);

// What an explanation found, beside what print_result says.
void print_explanation(const nlohmann::json& numbers);

// How a training ended, its result and where everything is. Returns the exit
// code.
int print_trained(const run::Trained& trained, bool as_json);

}  // namespace propagator::cli
