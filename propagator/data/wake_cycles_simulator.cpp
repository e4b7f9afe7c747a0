#include "propagator/data/wake_cycles_simulator.h"

namespace propagator::data {
namespace {

constexpr int64_t kMaxTable = 50'000'000;  // numbers of a table: 0.4 GB

}  // namespace

void WakeCyclesSimulator::describe(config::Schema& schema) {
  schema.section("wake", options_);
}

Simulated WakeCyclesSimulator::simulate(const Runtime& runtime) const {
  const auto [cycles, numbers] =
      physics::simulate_wake_cycles(options_, runtime.device);
  auto held_out = nlohmann::json::array();
  for (const auto& one : numbers.held_out) {
    held_out.push_back({{"reynolds", one.reynolds},
                        {"strouhal", one.strouhal},
                        {"strouhal_error", one.strouhal_error},
                        {"velocity_error", one.velocity_error}});
  }
  double worst = 0, worst_strouhal = 0;
  for (const auto& one : numbers.held_out) {
    worst = std::max(worst, one.velocity_error);
    worst_strouhal = std::max(worst_strouhal, one.strouhal_error);
  }
  return {.tensors = {{"reynolds", cycles.reynolds},
                      {"strouhal", cycles.strouhal},
                      {"x", cycles.x},
                      {"y", cycles.y},
                      {"velocity", cycles.velocity}},
          .numbers = {{"strouhal_lowest", cycles.strouhal[0].item<double>()},
                      {"strouhal_highest", cycles.strouhal[-1].item<double>()},
                      {"left_out", numbers.left_out},
                      {"drift", numbers.drift},
                      {"held_out", held_out},
                      {"held_out_velocity_error", worst},
                      {"held_out_strouhal_error", worst_strouhal}}};
}

std::vector<Validation> WakeCyclesSimulator::validations() const {
  const std::string measured =
      "the published fit of measurements, St = -3.3265/Re + 0.1816 + 1.6e-4 "
      "Re, within 3 %";
  const std::string enough = "a tenth of the noise of density/wake, or less";
  return {{.name = "interpolation",
           .help = "periodic flows from Re = 60 to 180, beside two that are "
                   "not in the table",
           .runs = {{"wake.reynolds_min=60", "wake.reynolds_max=180"}},
           .bands = {{"strouhal_lowest", 0.1317, 0.1398, measured},
                     {"strouhal_highest", 0.1862, 0.1977, measured},
                     {"held_out_velocity_error", 0, 0.02, enough},
                     {"held_out_strouhal_error", 0, 5e-4, enough},
                     {"left_out", 0, 0.05, enough},
                     {"drift", 0, 0.01, "a settled flow"}}}};
}

physics::WakeCycles read_wake_cycles(const std::filesystem::path& path) {
  const auto reader = TensorReader::open(path);
  const auto all = [&](const char* name) {
    int64_t count = 1;
    for (const int64_t size : reader->shape(name)) count *= size;
    if (count > kMaxTable) {
      throw DataError(
          fmt::format("{}: expected at most {} numbers of {}, got "
                      "{}",
                      path.string(), kMaxTable, name, count));
    }
    return reader->all(name).to(torch::kFloat64).contiguous();
  };
  physics::WakeCycles cycles{.reynolds = all("reynolds"),
                             .strouhal = all("strouhal"),
                             .x = all("x"),
                             .y = all("y"),
                             .velocity = all("velocity")};
  cycles.expect_whole(path.string());
  return cycles;
}

}  // namespace propagator::data
