#include "propagator/tasks/reconstruct/scaled_net.h"

#include <fmt/format.h>
#include <torch/utils.h>

namespace propagator::tasks {

ScaledNet::ScaledNet(Parts parts, int64_t outputs,
                     const std::vector<pde::Unknown>& unknowns)
    : parts_(std::move(parts)),
      shift_(register_parameter("shift", torch::zeros({outputs}), false)),
      scale_(register_parameter("scale", torch::ones({outputs}), false)) {
  register_module("network", parts_.network);
  if (parts_.spreads) register_module("spreads", parts_.spreads);
  for (size_t n = 0; n < parts_.functions.size(); ++n) {
    register_module(fmt::format("function{}", n), parts_.functions[n]);
  }
  if (unknowns.empty()) return;
  std::vector<double> starts;
  for (const auto& unknown : unknowns) {
    starts.push_back(unknown.start);
    auto& range = ranges_.emplace_back();
    if (unknown.bounds) range.emplace(*unknown.bounds);
  }
  starts_ = register_buffer("starts", torch::tensor(starts, torch::kFloat64));
  sought_ = register_parameter("sought", torch::zeros({std::ssize(starts)}));
}

torch::Tensor ScaledNet::unknowns() const {
  if (!sought_.defined()) return {};
  const auto starts = starts_.to(sought_.dtype());
  const auto free = torch::where(starts == 0, sought_, starts * sought_.exp());
  auto values = free.unbind();
  for (size_t k = 0; k < values.size(); ++k) {
    if (!ranges_[k]) continue;
    const auto at = sought_[static_cast<int64_t>(k)];
    values[k] = (*ranges_[k])(autodiff::Jet::constant(at)).value();
  }
  return torch::stack(values);
}

autodiff::Jet ScaledNet::forward(const autodiff::Jet& points) {
  const auto answers = parts_.network->forward(points);
  const int64_t others = answers.rows().size(-1) - parts_.fields;
  const bool apart = !parts_.functions.empty() && others > 0;
  std::vector<autodiff::Jet> all{
      apart ? autodiff::narrow(answers, -1, 0, parts_.fields) : answers};
  for (const auto& function : parts_.functions) {
    all.push_back(function->forward(points));
  }
  if (apart) {
    all.push_back(autodiff::narrow(answers, -1, parts_.fields, others));
  }
  if (parts_.spreads) all.push_back(parts_.spreads->forward(points));
  return (all.size() == 1 ? all.front() : autodiff::cat(all, -1)) * scale_ +
         shift_;
}

void ScaledNet::initialise(int64_t seed) {
  parts_.network->initialise(seed);
  for (const auto& function : parts_.functions) function->initialise(seed);
  if (parts_.spreads) parts_.spreads->initialise(seed);
}

void ScaledNet::set(const torch::Tensor& shift, const torch::Tensor& scale) {
  const torch::NoGradGuard no_grad;
  shift_.copy_(shift);
  scale_.copy_(scale);
}

}  // namespace propagator::tasks
