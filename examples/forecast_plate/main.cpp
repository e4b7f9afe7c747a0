// Solves a few heat plates and asks an (untrained) model for their future.

#include <fmt/format.h>
#include <propagator/models/heat_former.h>
#include <propagator/nn/init.h>
#include <propagator/physics/heat_plate.h>

int main() {
  using namespace propagator;

  physics::HeatPlateOptions plate;
  plate.rows = plate.cols = 12;
  plate.frames = 40;
  const auto cases =
      physics::draw_cases(plate, /*seed=*/1, 0, 4).to(torch::kFloat32);
  const auto truth = physics::solve(plate, cases);  // (4, 40, 12, 12)

  models::HeatFormerOptions options;
  options.width = 32;
  options.layers = 2;
  options.heads = 4;
  options.feed_forward = 32;
  options.predicts = models::Predicts::kChange;
  models::HeatFormer model(options, {plate.frames, plate.rows, plate.cols});
  nn::initialise(model, /*seed=*/1);

  const auto first = truth.narrow(1, 0, model.visible());
  const auto future = model.predict(first, cases.alpha);
  const auto error = (future - truth).square().mean().item<double>();
  fmt::print("{} parameters, MSE before training {:.2e}\n",
             nn::parameter_count(model), error);
  return error > 0 ? 0 : 1;
}
