#include "propagator/train/tune_options.h"

namespace propagator::train {

void TuneOptions::describe(config::Schema& s) {
  s.field("from", from,
          {.help = "run, or model.safetensors, whose weights training begins "
                   "with; if it is empty, new ones",
           .file = true,
           .later = true});
  s.field("method", method,
          {.help = "what is trained: everything; the last layer; low-rank "
                   "changes of matrices; bottleneck layers between frozen "
                   "ones; learned tokens that attention sees",
           .later = true});
  s.field("units", units,
          {.help = "units of what is not trained, such as the size of changes "
                   "of a plate: the base's, or those of the new data",
           .later = true});
  s.field("train", train,
          {.help = "names of parameters that are trained as well, such as "
                   "*.bias",
           .later = true});
  s.field("freeze", freeze,
          {.help = "names of parameters that stay as they are, such as "
                   "encoder.*",
           .later = true});
  s.field("targets", targets,
          {.help = "lora: names of the matrices that change", .later = true});
  s.field("rank", rank,
          {.help = "lora: rank of a matrix's change",
           .min = 1,
           .max = 65536,
           .later = true});
  s.field("alpha", alpha,
          {.help = "lora: the change is alpha/rank times the product of its "
                   "two factors",
           .min = 1e-6,
           .max = 1e6,
           .later = true});
  s.field("width", width,
          {.help = "adapters: width of the bottleneck",
           .min = 1,
           .max = 65536,
           .later = true});
  s.field("tokens", tokens,
          {.help = "prefix: learned keys and values of each attention",
           .min = 1,
           .max = 4096,
           .later = true});
}

std::vector<config::UnusedOption> TuneOptions::unused_options() const {
  if (!active()) {
    return {{"tune.", "tune.from names no weights to begin with"}};
  }
  std::vector<config::UnusedOption> unused;
  const auto only_for = [&](TuneMethod its, std::vector<const char*> keys) {
    if (method == its) return;
    for (const char* key : keys) {
      unused.push_back({key, "it is for tune.method=" + config::name_of(its)});
    }
  };
  only_for(TuneMethod::kLora, {"tune.targets", "tune.rank", "tune.alpha"});
  only_for(TuneMethod::kAdapters, {"tune.width"});
  only_for(TuneMethod::kPrefix, {"tune.tokens"});
  if (method == TuneMethod::kFull) {
    unused.push_back({"tune.train", "tune.method=full trains everything"});
  }
  return unused;
}

}  // namespace propagator::train
