// Opens a trained run and asks its model, from memory: the program for those
// who have a run and a code of their own.

#include <fmt/ranges.h>
#include <propagator/propagator.h>

int main(int argc, char** argv) try {
  using namespace propagator;
  const auto run = run::open(argc > 1 ? argv[1] : "runs/quick");

  // Every input of the model, filled with something of its shape.
  tasks::NamedTensors inputs;
  for (const auto& port : run.surrogate().inputs()) {
    auto sizes = port.shape;
    for (auto& size : sizes) size = size < 0 ? 8 : size;
    inputs[port.name] = torch::full(sizes, 0.5);
    fmt::print("in   {} ({}): {}\n", port.name, fmt::join(sizes, ", "),
               port.meaning);
  }

  for (const auto& [name, values] : run.apply(inputs)) {
    fmt::print("out  {} ({}): mean {:.4g}\n", name,
               fmt::join(values.sizes(), ", "),
               values.to(torch::kFloat64).mean().item<double>());
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return static_cast<int>(propagator::exit_code(error));
}
