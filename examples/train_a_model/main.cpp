// Trains a small configuration inside a program of one's own, which hears what
// happens and could ask to stop.

#include <fmt/format.h>
#include <propagator/propagator.h>

struct Listener : propagator::Observer {
  void log(Level level, const std::string& line) override {
    fmt::print("{}{}\n", level == Level::kWarning ? "warning: " : "", line);
  }
  bool stop_requested() override { return false; }
};

int main(int argc, char** argv) try {
  using namespace propagator;
  const run::Experiment experiment(config::Document::from_text(
      "plate: {rows: 12, cols: 12, frames: 40}\n"
      "data: {cases: 40}\n"
      "model: {width: 32, layers: 2, heads: 4, feed_forward: 32}\n"
      "train: {max_steps: 20}\n"
      "report: {page: no}\n",
      "small plate"));
  Listener listener;
  const auto trained = run::train(experiment, argc > 1 ? argv[1] : "runs/tiny",
                                  /*force=*/true, listener);
  if (trained.stopped()) return static_cast<int>(ExitCode::kStopped);
  fmt::print("{}", trained.result->evaluation.table.text());
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return static_cast<int>(propagator::exit_code(error));
}
