#include <chrono>
#include <cstdlib>
#include <thread>

#include "propagator/cli/commands.h"
#include "propagator/cli/stop_signals.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/serve/server.h"

namespace propagator::cli {
namespace {

constexpr const char* kKeyVariable = "PROPAGATOR_API_KEY";
constexpr auto kLook = std::chrono::milliseconds(50);

// Not an option of its own: other users see the command lines of a machine.
std::string read_key(const std::string& file) {
  const char* given = std::getenv(kKeyVariable);
  std::string key = given == nullptr ? "" : given;
  if (!file.empty()) key = read_file(file);
  while (key.ends_with('\n') || key.ends_with('\r')) key.pop_back();
  if (key.empty() && !file.empty()) {
    throw UsageError(file + ": expected an API key, got an empty file");
  }
  return key;
}

int serve_until_stopped(const serve::ServerOptions& options) {
  const StopSignals signals(
      "\nanswering what has come; once more stops at once\n");
  serve::Server server(options);
  fmt::print("{}\n", server.url());
  std::fflush(stdout);
  while (StopSignals::requested() == 0) std::this_thread::sleep_for(kLook);
  server.stop();
  log::info("stopped after {} responses", server.responses());
  return 0;
}

void add_limits(CLI::App& verb, serve::ServerOptions& o) {
  auto& batcher = o.service.batcher;
  verb.add_option("--batch", batcher.batch,
                  "Requests computed at once; 1: each has the bits that it has "
                  "by itself")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  verb.add_option("--queue", batcher.queue,
                  "Requests that may wait; others are sent away with 503")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb.add_option("--max-body", o.limits.body_bytes, "Bytes of a request")
      ->check(CLI::Range(int64_t{1} << 10, int64_t{1} << 32))
      ->capture_default_str();
  verb.add_option("--max-answer", o.service.answer_bytes, "Bytes of an answer")
      ->check(CLI::Range(int64_t{1} << 10, int64_t{1} << 40))
      ->capture_default_str();
  verb.add_option("--max-seconds", o.limits.seconds,
                  "Time of a client to send a request, of a request to wait, "
                  "and of a client to take the response, each")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  verb.add_option("--connections", o.limits.connections,
                  "Connections at one time")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  struct Options {
    serve::ServerOptions server;
    std::string key_file;
    Overrides overrides;
  };
  const auto o = std::make_shared<Options>();
  auto* verb = app.add_subcommand(
      "serve", "Answer requests to runs over HTTP, on this machine");
  verb->footer(
      "Open Inference Protocol, version 2, with binary tensors. Prints its "
      "address,\nwhich in a browser is a page to try the models by hand. "
      "SIGINT or SIGTERM ends\nit when all that has come is "
      "answered.\n\nExamples:\n"
      "  propagator serve runs/demo\n"
      "  propagator serve runs/quick fine=runs/wide --port 0 --batch 1\n"
      "  propagator serve runs/demo --address 0.0.0.0 --key-file key.txt "
      "--host "
      "lab.example\n\n"
      "The API key may also come from the environment: PROPAGATOR_API_KEY.");
  verb->add_option("runs", o->server.runs, "Folders of runs, or NAME=FOLDER")
      ->required();
  auto& access = o->server.service.access;
  verb->add_option("--address", access.address,
                   "Where to listen; others than 127.0.0.1 and ::1 need a key")
      ->capture_default_str();
  verb->add_option("--port", o->server.port, "0: any that is free")
      ->capture_default_str();
  verb->add_option("--key-file", o->key_file,
                   "A file with the API key that requests must bring");
  verb->add_option("--host", access.hosts,
                   "Another name by which clients call this server")
      ->allow_extra_args(false);
  verb->add_option("--cors", access.origin,
                   "The origin of a page whose scripts may ask");
  add_limits(*verb, o->server);
  o->overrides.add_to(*verb, Overrides::Subject::kModel);
  verb->callback([o, &action] {
    action = [o] {
      o->server.service.access.key = read_key(o->key_file);
      o->server.service.batcher.patience = o->server.limits.seconds;
      o->server.change = o->overrides.change();
      return serve_until_stopped(o->server);
    };
  });
}

}  // namespace propagator::cli
