#include "propagator/models/heat_former.h"

namespace propagator::models {

const std::map<std::string, ForecasterKind>& forecasters() {
  static const std::map<std::string, ForecasterKind> kinds{
      {"heat_former",
       {"the transformer of document 000, honest or as published",
        [] { return std::make_unique<HeatFormerOptions>(); }}},
  };
  return kinds;
}

}  // namespace propagator::models
