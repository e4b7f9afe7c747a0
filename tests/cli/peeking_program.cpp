// What makes the program of a test out of the program: it has one forecaster
// more, `peeper`, which calls itself honest and reads what is hidden. The
// linker puts this in the place of the list of forecasters (--wrap).

#include "peeper.h"
#include "propagator/models/heat_former.h"

namespace {

using namespace propagator;

struct PeeperOptions : models::ForecasterOptions {
  static constexpr int64_t kVisible = 3;
  void describe(config::Schema&) override {}
  void validate(const models::FieldShape&) const override {}
  bool honest() const override { return true; }
  bool autoregressive() const override { return false; }
  std::shared_ptr<models::Forecaster> make(
      const models::FieldShape& shape) const override {
    return std::make_shared<testing::Peeper>(shape, kVisible, false);
  }
};

const Kinds<models::ForecasterOptions>& kinds() {
  static const Kinds<models::ForecasterOptions> all{
      {"heat_former",
       {"as in the program",
        [] { return std::make_unique<models::HeatFormerOptions>(); }}},
      {"peeper", {"reads the frames that are hidden from it", [] {
                    return std::make_unique<PeeperOptions>();
                  }}}};
  return all;
}

}  // namespace

// The names that --wrap gives to what is called in the place of
// propagator::models::forecasters(), with either kind of std::string.
extern "C" const Kinds<models::ForecasterOptions>&
__wrap__ZN10propagator6models11forecastersB5cxx11Ev() {
  return kinds();
}
extern "C" const Kinds<models::ForecasterOptions>&
__wrap__ZN10propagator6models11forecastersEv() {
  return kinds();
}
