#pragma once

#include "propagator/report/report.h"
#include "propagator/train/history.h"

namespace propagator::run {

// Where the learning rate jumps, or has its peak if it moves all the time; and
// the best validation.
std::vector<report::Event> events_of(const train::History& history);

// Figures loss, loss-terms and learning-rate; terms that may be negative are in
// loss-terms-signed.
void draw_history(const train::History& history, report::Report& report);

}  // namespace propagator::run
