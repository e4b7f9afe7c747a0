#pragma once

#include "propagator/models/field_net.h"
#include "propagator/nn/data_shaped.h"

namespace propagator::models {

// A classical answer beside the networks: it is fitted to readings by `observe`
// and has no parameter to train. Everything is in float64, whatever the
// precision of a run: weights of smooth kernels are large and cancel.
//
// What the fit gives are parameters without gradient, so that checkpoints keep
// them.
class FittedNet : public FieldNet, public nn::DataShaped {
 public:
  explicit FittedNet(const FieldDomain& domain);

  // In parts that bound the memory; UsageError before the fit.
  autodiff::Jet forward(const autodiff::Jet& windows) final;
  void observe(const autodiff::Observations& read) final;
  void initialise(int64_t) final {}
  void take_shapes(const std::map<std::string, torch::Tensor>& tensors,
                   const std::string& prefix) final;
  // The device alone.
  void to(torch::Device device, torch::Dtype dtype,
          bool non_blocking = false) final;
  void to(torch::Dtype dtype, bool non_blocking = false) final;
  void to(torch::Device device, bool non_blocking = false) final;

 protected:
  // Fits to readings at places whose axes are on [-1, 1], on the CPU. Sizes
  // other than that of the sensors are set first.
  virtual void fit(const autodiff::Observations& read) = 0;
  // Points (R; N, D), axes on [-1, 1] → fields (R; N, F).
  virtual autodiff::Jet answer(const autodiff::Jet& points) = 0;

  // So many numbers for each point are there at once.
  virtual int64_t width() const { return places().size(0); }

  // A parameter with one dimension or more. Sizes that data decide stand in its
  // shape as numbers from 0 down, the same ones for the same size.
  static constexpr int64_t kSensors = 0;
  using Sizes = std::map<int64_t, int64_t>;
  void resize(const Sizes& sizes);
  void declare(const std::string& name, std::vector<int64_t> shape);
  void set(const std::string& name, const torch::Tensor& value);
  const torch::Tensor& get(const std::string& name) const;
  const torch::Tensor& places() const { return get(kPlaces); }  // (M, D)
  const FieldDomain& domain() const { return domain_; }

 private:
  static constexpr const char* kPlaces = "places";

  FieldDomain domain_;
  torch::Tensor low_, span_;  // (D)
  std::map<std::string, std::vector<int64_t>> shapes_;
};

// The whole of a column of readings that are there: their rows, and which.
struct ReadColumn {
  torch::Tensor rows;    // (n), numbers of sensors
  torch::Tensor values;  // (n)

  static ReadColumn of(const torch::Tensor& column);
};

}  // namespace propagator::models
