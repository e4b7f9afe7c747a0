#include <fmt/format.h>

#include "propagator/data/safetensors.h"
#include "propagator/run/run.h"
#include "propagator/run/train.h"
#include "testing.h"

namespace propagator::run {
namespace {

using testing::near;
using testing::random;

constexpr const char* kScale = "change_scale";

// A small plate model that counts changes in units of their mean size.
Experiment plate(const std::string& more) {
  return Experiment(config::Document::from_text(
      "task: forecast\nplate: {rows: 6, cols: 6, frames: 8, segment_start: 1, "
      "segment_length: 2}\ndata: {cases: 20}\nmodel: {visible: 3, width: 16, "
      "layers: 1, heads: 2, feed_forward: 8, predicts: scaled_change}\n"
      "device: cpu\nreport: {page: no}\ntrain: {max_steps: 2, batch: 4, "
      "checkpoint_every: 2}\n" +
          more,
      "test"));
}

TEST(RunTuningUnits, AreThoseOfTheNewDataIfAskedFor) {
  const testing::TemporaryFolder folder;
  Observer silent;
  train(plate(""), folder / "first", false, silent);
  const auto answers = [](const run::Run& run) {
    return run
        .apply({{"fields", random({2, 3, 6, 6}, "fields").abs()},
                {"alpha", torch::full({2}, 0.05)}})
        .at("fields");
  };
  const auto scale_of = [&](const std::string& name) {
    return open(folder / name).model().named_parameters()[kScale].clone();
  };
  for (const std::string units : {"base", "data"}) {
    train(plate(fmt::format("seed: 3\ntune: {{from: {}, method: lora, rank: 2, "
                            "units: {}}}\n",
                            (folder / "first").string(), units)),
          folder / units, false, silent);
    const bool same = torch::equal(scale_of(units), scale_of("first"));
    EXPECT_EQ(same, units == "base");
    const auto adapter =
        train::list_checkpoints(folder / units / "checkpoints").back() /
        "adapter.safetensors";
    EXPECT_EQ(data::load_safetensors(adapter).tensors.contains(kScale),
              units == "data");
    // Base and adapter are the tuned run, units included.
    EXPECT_TRUE(
        near(answers(open(folder / "first", {.adapter = adapter.string()})),
             answers(open(folder / units)), testing::kFloat32))
        << units;
  }
}

}  // namespace
}  // namespace propagator::run
