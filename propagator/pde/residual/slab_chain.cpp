#include "propagator/pde/residual/slab_chain.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/autodiff/point_gradients.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

// How far s goes, in lengths of a slab.
constexpr double kReach = 0.25;

// With another time: f of that of the points.
template <class F>
Jet with_time(const Jet& points, int64_t variable, F&& f) {
  auto rows = points.rows().clone();
  auto time = rows.select(-1, variable);
  f(time);
  return Jet(rows, points.layout());
}

}  // namespace

SlabChain::SlabChain(SlabTime time, std::vector<HardForm> forms,
                     std::vector<std::shared_ptr<autodiff::FieldNet>> networks)
    : time_(std::move(time)), forms_(std::move(forms)) {
  for (auto& network : networks) {
    const bool trained = networks_.empty();
    networks_.push_back(register_module(
        trained ? "network" : fmt::format("slab{}", networks_.size() - 1),
        std::move(network)));
    if (trained) continue;
    for (auto& parameter : networks_.back()->parameters()) {
      parameter.set_requires_grad(false);
    }
  }
  stored_ =
      register_parameter("slabs", torch::zeros({most() + 2}, torch::kFloat64),
                         /*requires_grad=*/false);
  set_layout({0, time_.interval.low, time_.interval.high});
}

void SlabChain::initialise(int64_t seed) {
  networks_.front()->initialise(seed);
  const torch::NoGradGuard no_grad;
  for (size_t n = 1; n < networks_.size(); ++n) {
    for (auto& parameter : networks_[n]->parameters()) parameter.zero_();
  }
}

const std::vector<double>& SlabChain::layout() const {
  // Reading makes the host wait for a GPU.
  if (version_ != static_cast<int64_t>(stored_._version())) {
    const auto here = stored_.detach().to(torch::kCPU, torch::kFloat64);
    const double* number = here.data_ptr<double>();
    layout_.assign(number, number + here.numel());
    version_ = static_cast<int64_t>(stored_._version());
  }
  return layout_;
}

void SlabChain::set_layout(const std::vector<double>& layout) {
  const torch::NoGradGuard no_grad;
  stored_.narrow(0, 0, std::ssize(layout))
      .copy_(torch::tensor(layout, torch::kFloat64));
  known_.forget();
}

Interval SlabChain::interval_of(int64_t slab) const {
  const auto at = static_cast<size_t>(slab) + 1;
  return {layout()[at], layout()[at + 1]};
}

void SlabChain::restart(double end, int64_t seed) {
  networks_.front()->initialise(seed);
  set_end(end);
}

void SlabChain::set_end(double end) {
  auto changed = layout();
  changed[static_cast<size_t>(finished()) + 2] = end;
  set_layout(changed);
}

void SlabChain::finish(double end) {
  const torch::NoGradGuard no_grad;
  const auto now = networks_.front()->parameters();
  const auto done =
      networks_[static_cast<size_t>(finished()) + 1]->parameters();
  for (size_t n = 0; n < now.size(); ++n) done[n].copy_(now[n]);
  auto changed = layout();
  changed[0] += 1;
  changed[static_cast<size_t>(changed[0]) + 2] = end;
  set_layout(changed);
}

Jet SlabChain::forward(const Jet& points) {
  return is_training() || finished() == 0 ? in_slab(finished(), points)
                                          : everywhere(points);
}

Jet SlabChain::everywhere(const Jet& points) {
  const auto times =
      points.rows()[0].select(1, 0).select(-1, time_.variable).contiguous();
  const auto& ends = layout();
  const auto slabs = torch::bucketize(
      times,
      torch::tensor(at::ArrayRef<double>(ends.data() + 2,
                                         static_cast<size_t>(finished())),
                    times.options()),
      /*out_int32=*/false, /*right=*/true);
  std::vector<Tensor> answers, places;
  autodiff::JetLayout carried;
  for (int64_t slab = 0; slab <= finished(); ++slab) {
    places.push_back((slabs == slab).nonzero().flatten());
    if (places.back().numel() == 0) continue;
    const auto answer = in_slab(
        slab,
        Jet(points.rows().index_select(1, places.back()), points.layout()));
    carried = answer.layout();
    answers.push_back(answer.rows());
  }
  const auto back = torch::cat(places).argsort();
  return Jet(torch::cat(answers, 1).index_select(1, back), carried);
}

Jet SlabChain::in_slab(int64_t slab, const Jet& points) {
  const auto& whole = time_.interval;
  const auto now = interval_of(slab);
  const double rate = (whole.high - whole.low) / (now.high - now.low);
  const auto answer = network_of(slab).forward(
      with_time(points, time_.variable, [&](Tensor& time) {
        time.mul_(rate);
        time[0].add_(whole.low - rate * now.low);
      }));
  const auto base = base_of(slab, points);
  const auto networks = answer.rows().unbind(-1);
  std::vector<Tensor> fields;
  for (size_t f = 0; f < networks.size(); ++f) {
    const Jet field(networks[f], answer.layout());
    fields.push_back((field * base[f].distance + base[f].value).rows());
  }
  return Jet(torch::stack(fields, -1), answer.layout());
}

Jet SlabChain::ends_of(int64_t slab, const Jet& points) const {
  const auto slab_time = interval_of(slab);
  const double begin = slab_time.low;
  const bool moves = *std::ranges::max_element(time_.orders) > 1;
  return with_time(points, time_.variable, [&](Tensor& time) {
    if (moves) {
      const double reach = kReach * (slab_time.high - begin);
      const auto since = Jet(time.clone(), points.layout()) - begin;
      time.copy_((autodiff::tanh(since * (1 / reach)) * reach + begin).rows());
    } else {
      time.zero_();
      time[0].fill_(begin);
    }
  });
}

SlabChain::Base SlabChain::base_of(int64_t slab, const Jet& points) {
  const bool again = is_training() && slab == finished();
  const auto made = [&] { return new_base_of(slab, points); };
  return again ? known_.of(points, made) : made();
}

SlabChain::Base SlabChain::new_base_of(int64_t slab, const Jet& points) {
  Base base;
  const auto variables = autodiff::coordinates(points);
  const auto values = values_of(slab, points);
  for (size_t f = 0; f < forms_.size(); ++f) {
    const auto order = slab == 0 ? forms_[f].initial_order() : time_.orders[f];
    base.push_back(
        {values[f], forms_[f].distance(variables, interval_of(slab), order)});
  }
  return base;
}

std::vector<Jet> SlabChain::values_of(int64_t slab, const Jet& points) {
  std::vector<Jet> values;
  const auto variables = autodiff::coordinates(points);
  if (slab == 0) {
    for (const auto& form : forms_) values.push_back(form.values(variables));
    return values;
  }
  const auto ends = ends_of(slab, points);
  const auto before = [&] {
    const autodiff::PointGradients unheard;  // its weights are not trained
    return in_slab(slab - 1, ends);
  }();
  const auto then = autodiff::coordinates(ends);
  const auto fields = before.rows().unbind(-1);
  for (size_t f = 0; f < forms_.size(); ++f) {
    const auto& form = forms_[f];
    if (time_.orders[f] == 0) {
      values.push_back(form.values(variables));
      continue;
    }
    Jet goes_on(fields[f], before.layout());
    if (form.has_faces()) {
      goes_on = goes_on + (form.values(variables) - form.values(then));
    }
    values.push_back(goes_on);
  }
  return values;
}

}  // namespace propagator::pde
