#pragma once

#include <nlohmann/json.hpp>

#include "propagator/run/run.h"

namespace propagator::run {

// Which rows to train and test, and how.
struct ReproduceRequest {
  // Tasks ("locate": all its rows that have a band), rows, or the beginnings
  // of some ("locate/lecture-*": all that begin so); of one task.
  std::vector<std::string> rows;
  std::filesystem::path runs = "runs/reproduce", out = "results";
  int64_t seeds = 0;  // 0: as many as each row says
  // Where to compute; the seed and the precision; and what else is set, which
  // makes it another row and needs an `own_out`.
  Change where = {}, how = {}, settings = {};
  bool own_out = false;
  // Of a program whose sources are not those of a commit: the rows say so.
  bool draft = false;
  // Seeds of other code or another machine are trained again.
  bool retrain = false;
  std::optional<double> time_limit = {};  // s
  std::string arguments = "";  // as typed behind the row, for its file
};

struct RowResult {
  std::string name;        // "forecast/base-block"
  nlohmann::json summary;  // as its file under `out` has it
  bool inside = true;      // its bands, if it has any
  bool leaks = false;      // though it is honest
};

// Trains and tests each row with its seeds, or takes up what is there, and
// writes OUT/TASK/ROW.json and the figures of the rows. `stopped` if it was
// asked to stop, with a good checkpoint. A row names a commit and has seeds of
// one code, one kind of machine and one precision: UsageError, before anything
// is trained, for what is there of others, and for a program that was built
// from changed sources, unless the request allows it.
struct Reproduced {
  std::vector<RowResult> rows;
  bool stopped = false;
};
Reproduced reproduce(const ReproduceRequest& request, Observer& observer);

}  // namespace propagator::run
