#include "propagator/capi/open_run.h"

#include <fmt/ranges.h>
#include <omp.h>

#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "propagator/capi/errors.h"
#include "propagator/core/error.h"

namespace propagator::capi {
namespace {

constexpr int64_t kMostThreads = 4096;

// The fields that the caller's version of the struct has; the rest by default.
pg_options read_options(const pg_options* given) {
  pg_options options = PG_OPTIONS;
  if (given == nullptr) return options;
  // The first version's size is the least: there has been no other so far.
  if (given->size != sizeof(pg_options)) {
    throw UsageError(
        fmt::format("[pg_open] expected options of size {}, got {}",
                    sizeof(pg_options), given->size),
        "begin with pg_options options = PG_OPTIONS, from the header of this "
        "version");
  }
  options = *given;
  if (options.threads < 0 || options.threads > kMostThreads) {
    throw UsageError(
        fmt::format("[pg_open] expected options.threads from 0 to {}, got {}",
                    kMostThreads, options.threads));
  }
  return options;
}

run::OpenOptions open_options(const pg_options& options) {
  const auto text = [](const char* value) {
    return value == nullptr ? std::optional<std::string>() : value;
  };
  return {.change = [device = text(options.device),
                     precision =
                         text(options.precision)](config::Document& document) {
    if (device) document.set("device", *device, "options.device");
    if (precision) document.set("precision", *precision, "options.precision");
  }};
}

run::Run open(const char* folder, const pg_options& options) {
  expect_pointer("pg_open", "the folder of a run", folder);
  return {folder, open_options(options)};
}

struct Handles {
  std::shared_mutex mutex;
  std::unordered_map<uintptr_t, std::shared_ptr<const OpenRun>> open;
  uintptr_t last = 0;
};

// Never destroyed: a run that is still open when the host ends would need
// libtorch, whose own parts go at that time.
Handles& handles() {
  static auto* all = new Handles;
  return *all;
}

uintptr_t number_of(const pg_run* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

UsageError not_open(const char* function, const pg_run* handle) {
  return UsageError(
      fmt::format("[{}] expected an open run, got {}", function,
                  handle == nullptr ? "a null pointer"
                                    : "a handle that is not open (any more)"),
      "pg_open gives one, and pg_close ends it");
}

}  // namespace

OpenRun::OpenRun(const char* folder, const pg_options* options)
    : threads_(read_options(options).threads),
      host_threads_(omp_get_max_threads()),
      run_(open(folder, read_options(options))),
      inputs_(run_.surrogate().inputs()),
      outputs_(run_.surrogate().outputs()) {}

// A run puts back the number of threads that it found, and not only in this
// thread, if another one is set.
OpenRun::~OpenRun() { omp_set_num_threads(host_threads_); }

OpenRun::Ports::Ports(std::vector<tasks::Surrogate::Port> ports)
    : ports_(std::move(ports)) {
  for (const auto& port : ports_) {
    all_.push_back({port.name.c_str(), port.meaning.c_str(), port.shape.data(),
                    static_cast<int32_t>(port.shape.size())});
  }
}

const pg_port& OpenRun::Ports::named(const char* function, const char* kind,
                                     const char* name) const {
  std::vector<std::string> names;
  for (const auto& port : all_) {
    if (std::strcmp(port.name, name) == 0) return port;
    names.emplace_back(port.name);
  }
  throw UsageError(
      fmt::format("[{}] expected an {} of this model, got '{}'", function, kind,
                  name),
      config::did_you_mean(
          name, names, fmt::format("there are {}", fmt::join(names, ", "))));
}

pg_run* keep(std::shared_ptr<const OpenRun> run) {
  auto& all = handles();
  const std::unique_lock lock(all.mutex);
  all.open.emplace(all.last + 1, std::move(run));
  return reinterpret_cast<pg_run*>(++all.last);
}

std::shared_ptr<const OpenRun> find(const char* function,
                                    const pg_run* handle) {
  auto& all = handles();
  const std::shared_lock lock(all.mutex);
  const auto found = all.open.find(number_of(handle));
  if (found == all.open.end()) throw not_open(function, handle);
  return found->second;
}

std::shared_ptr<const OpenRun> take(const char* function,
                                    const pg_run* handle) {
  auto& all = handles();
  const std::unique_lock lock(all.mutex);
  auto node = all.open.extract(number_of(handle));
  if (node.empty()) throw not_open(function, handle);
  return std::move(node.mapped());
}

}  // namespace propagator::capi
