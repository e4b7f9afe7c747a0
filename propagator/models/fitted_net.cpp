#include "propagator/models/fitted_net.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/error.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using torch::Tensor;

// Numbers of a table of points by sensors that are there at once.
constexpr int64_t kAtOnce = int64_t{1} << 22;
// Sensors whose dense system fits into the memory of a usual machine.
constexpr int64_t kMostSensors = 20000;

}  // namespace

FittedNet::FittedNet(const FieldDomain& domain) : domain_(domain) {
  low_ = register_buffer("low", torch::tensor(domain.low, torch::kFloat64));
  span_ = register_buffer("span",
                          torch::tensor(domain.high, torch::kFloat64) - low_);
  declare(kPlaces, {kSensors, domain.variables()});
}

void FittedNet::declare(const std::string& name, std::vector<int64_t> shape) {
  auto first = shape;
  for (auto& size : first) size = std::max<int64_t>(size, 0);
  register_parameter(name, torch::zeros(first, torch::kFloat64), false);
  shapes_[name] = std::move(shape);
}

const Tensor& FittedNet::get(const std::string& name) const {
  return *parameters_.find(name);
}

void FittedNet::set(const std::string& name, const Tensor& value) {
  const torch::NoGradGuard no_grad;
  parameters_[name].copy_(value);
}

void FittedNet::resize(const Sizes& sizes) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, declared] : shapes_) {
    auto shape = parameters_[name].sizes().vec();
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto found = sizes.find(declared[d]);
      if (found != sizes.end()) shape[d] = found->second;
    }
    parameters_[name].resize_(shape);
  }
}

void FittedNet::take_shapes(const std::map<std::string, Tensor>& tensors,
                            const std::string& prefix) {
  Sizes sizes;
  for (const auto& [name, declared] : shapes_) {
    const auto found = tensors.find(prefix + name);
    if (found == tensors.end()) continue;
    const auto shape = found->second.sizes();
    for (size_t d = 0; d < std::min(shape.size(), declared.size()); ++d) {
      if (declared[d] > 0) continue;
      sizes.emplace(declared[d], std::min(shape[d], kMostSensors));
    }
  }
  resize(sizes);
}

void FittedNet::observe(const autodiff::Observations& read) {
  const torch::NoGradGuard no_grad;
  const int64_t sensors = read.points.size(0);
  if (sensors > kMostSensors) {
    throw UsageError(
        fmt::format("[model] expected at most {} sensors, whose dense system "
                    "is solved, got {}",
                    kMostSensors, sensors),
        "lower sensors.count, or choose a network");
  }
  resize({{kSensors, sensors}});
  const auto places =
      (read.points.to(torch::kFloat64) - low_.cpu()) * (2 / span_.cpu()) - 1;
  set(kPlaces, places);
  const auto of_fields = [&](const Tensor& given, double otherwise) {
    return given.defined()
               ? given.to(torch::kFloat64)
               : torch::full({domain_.fields}, otherwise, torch::kFloat64);
  };
  fit({places, read.readings.to(torch::kFloat64), of_fields(read.shift, 0),
       of_fields(read.scale, 1)});
}

Jet FittedNet::forward(const Jet& windows) {
  if (places().size(0) == 0) {
    throw UsageError("[model] this one is fitted to readings, and has none",
                     "it is a model of the task reconstruct");
  }
  const auto& rows = windows.rows();  // (R, N, T, D)
  const auto points =
      Jet(rows.to(torch::kFloat64).flatten(1, 2), windows.layout()) *
          (2 / span_) +
      (-1 - 2 * low_ / span_);
  const int64_t part = std::max<int64_t>(1, kAtOnce / (width() * rows.size(0)));
  std::vector<Tensor> parts;
  int64_t n = 0;
  do {
    const auto some = points.rows().slice(1, n, n + part);
    parts.push_back(answer(Jet(some, points.layout())).rows());
    n += part;
  } while (n < points.rows().size(1));
  return {torch::cat(parts, 1)
              .view({rows.size(0), rows.size(1), rows.size(2), domain_.fields})
              .to(rows.scalar_type()),
          windows.layout()};
}

void FittedNet::to(torch::Device device, torch::Dtype, bool non_blocking) {
  torch::nn::Module::to(device, non_blocking);
}
void FittedNet::to(torch::Dtype, bool) {}
void FittedNet::to(torch::Device device, bool non_blocking) {
  torch::nn::Module::to(device, non_blocking);
}

ReadColumn ReadColumn::of(const Tensor& column) {
  const auto rows = torch::isfinite(column).nonzero().squeeze(1);
  return {rows, column.index_select(0, rows)};
}

}  // namespace propagator::models
