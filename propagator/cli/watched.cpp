#include "propagator/cli/watched.h"

#include "propagator/core/log.h"
#include "propagator/core/ranks.h"
#include "propagator/serve/watch.h"

namespace propagator::cli {

run::Trained watched(bool watch, const std::filesystem::path& folder,
                     const std::function<run::Trained(Observer&)>& train) {
  if (!watch || !ranks().is_first()) return train(observer());
  serve::Watch page(folder, observer());
  log::info("watch the training at {}", page.url());
  return train(page);
}

}  // namespace propagator::cli
