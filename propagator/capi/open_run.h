#pragma once

#include <memory>
#include <vector>

#include "propagator/capi/propagator.h"
#include "propagator/run/run.h"

namespace propagator::capi {

// What a handle stands for: the run, and what it takes and gives as C sees it.
class OpenRun {
 public:
  // As pg_open; errors as of run::open.
  OpenRun(const char* folder, const pg_options* options);
  ~OpenRun();
  OpenRun(const OpenRun&) = delete;
  OpenRun& operator=(const OpenRun&) = delete;

  const run::Run& run() const { return run_; }
  int64_t threads() const { return threads_; }

  // Ports with memory of their own.
  class Ports {
   public:
    explicit Ports(std::vector<tasks::Surrogate::Port> ports);
    const std::vector<pg_port>& all() const { return all_; }
    // UsageError names what there is.
    const pg_port& named(const char* function, const char* kind,
                         const char* name) const;

   private:
    std::vector<tasks::Surrogate::Port> ports_;
    std::vector<pg_port> all_;
  };
  const Ports& inputs() const { return inputs_; }
  const Ports& outputs() const { return outputs_; }

 private:
  int64_t threads_;
  int host_threads_;  // of OpenMP when it was opened
  run::Run run_;
  Ports inputs_, outputs_;
};

// Handles are numbers that are never given twice, so that one which was closed,
// or never was one, is found out. A run lives until its last call has ended.
pg_run* keep(std::shared_ptr<const OpenRun> run);
// UsageError if it is not open.
std::shared_ptr<const OpenRun> find(const char* function, const pg_run* handle);
std::shared_ptr<const OpenRun> take(const char* function, const pg_run* handle);

}  // namespace propagator::capi
