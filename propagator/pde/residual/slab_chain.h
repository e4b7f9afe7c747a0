#pragma once

#include <memory>
#include <vector>

#include "propagator/autodiff/field_net.h"
#include "propagator/autodiff/jet_memo.h"
#include "propagator/pde/residual/hard_form.h"

namespace propagator::pde {

// What a chain of slabs knows of time.
struct SlabTime {
  int64_t variable = -1;
  Interval interval = {};
  // Of each field, how many derivatives by time, the field itself counted, go
  // on from slab to slab: as many as the conditions give at first.
  std::vector<int64_t> orders = {};
};

// A problem's time in slabs, with a network for each. In the first slab a field
// has the form G + D N of its hard constraints. In slab k, from t_k on, it is
//   u_k(x, t) = u_{k-1}(x, s) + G(x, t) − G(x, s) + τᵐ d(x) N_k(x, τ)
// with τ the share of the slab that lies behind, m the field's order and d the
// part of D of other variables. s is t_k where no order is above 1; else it
// leaves t_k as fast as t and stays near, so that no network is asked far
// beyond its slab. So u_k begins as u_{k-1} ends, with m − 1 derivatives by
// time, and meets the same constraints on faces.
//
// One network is trained, the first; those of finished slabs are copies of it.
class SlabChain : public autodiff::FieldNet {
 public:
  // A network for each slab that there may be, all alike. `forms` of each
  // field.
  SlabChain(SlabTime time, std::vector<HardForm> forms,
            std::vector<std::shared_ptr<autodiff::FieldNet>> networks);

  // In training all points are in the slab that is trained. Windows have one
  // token.
  Jet forward(const Jet& points) override;
  void initialise(int64_t seed) override;
  std::shared_ptr<void> hold() override { return networks_.front()->hold(); }

  int64_t most() const { return std::ssize(networks_); }
  int64_t finished() const { return static_cast<int64_t>(layout()[0]); }
  Interval slab() const { return interval_of(finished()); }  // in training
  void set_end(double end);
  // It goes up to `end`, and begins anew.
  void restart(double end, int64_t seed);
  // It is finished; the next goes up to `end`, and begins with its weights.
  void finish(double end);

 private:
  // Of each field, what it is without the network of its slab, and by what that
  // is multiplied.
  struct Part {
    Jet value, distance;
  };
  using Base = std::vector<Part>;

  Jet in_slab(int64_t slab, const Jet& points);
  Base base_of(int64_t slab, const Jet& points);
  Base new_base_of(int64_t slab, const Jet& points);
  std::vector<Jet> values_of(int64_t slab, const Jet& points);
  Jet ends_of(int64_t slab, const Jet& points) const;  // with s as time
  Jet everywhere(const Jet& points);

  // How many are finished, then where each begins, and the last one's end; on
  // the host.
  const std::vector<double>& layout() const;
  void set_layout(const std::vector<double>& layout);
  Interval interval_of(int64_t slab) const;
  // That of a finished slab, or the one in training.
  autodiff::FieldNet& network_of(int64_t slab) {
    return *networks_[slab < finished() ? static_cast<size_t>(slab) + 1 : 0];
  }

  SlabTime time_;
  std::vector<HardForm> forms_;
  std::vector<std::shared_ptr<autodiff::FieldNet>> networks_;
  torch::Tensor
      stored_;  // the layout, as a parameter: a file of a model has it
  mutable std::vector<double> layout_;
  mutable int64_t version_ = -1;
  autodiff::JetMemo<Base> known_;  // of the slab in training
};

}  // namespace propagator::pde
