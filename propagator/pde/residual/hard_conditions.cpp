#include "propagator/pde/residual/hard_conditions.h"

#include <torch/utils.h>

#include <algorithm>
#include <set>

#include "propagator/autodiff/jet_memo.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

// Whether a condition holds at the first time of a problem.
bool holds_at_first(const Problem& problem, const Condition& condition) {
  const int64_t time = problem.time();
  return condition.variable == time && !condition.is_periodic() &&
         condition.at == problem.domain[static_cast<size_t>(time)].low;
}

// It owns all that it needs of the problem: a model may outlive its task.
class WithConditions : public autodiff::FieldNet {
 public:
  WithConditions(std::vector<HardForm> forms,
                 std::shared_ptr<autodiff::FieldNet> network)
      : forms_(std::move(forms)),
        network_(register_module("network", std::move(network))) {}

  Jet forward(const Jet& points) override {
    const auto answer = network_->forward(points);
    const auto parts = parts_at(points);
    std::vector<Tensor> all;
    const auto networks = answer.rows().unbind(-1);
    for (size_t f = 0; f < networks.size(); ++f) {
      Jet field(networks[f], answer.layout());
      // What a network answers beside the fields has no such conditions.
      if (f < forms_.size() && !forms_[f].empty()) {
        field = field * parts[f].distance + parts[f].value;
      }
      all.push_back(field.rows());
    }
    return Jet(torch::stack(all, -1), answer.layout());
  }

  void initialise(int64_t seed) override { network_->initialise(seed); }
  void observe(const autodiff::Observations& read) override {
    network_->observe(read);
  }
  std::shared_ptr<void> hold() override { return network_->hold(); }
  Tensor unknowns() const override { return network_->unknowns(); }

 private:
  // G and D of a field, if it has any.
  struct Part {
    Jet value = {}, distance = {};
  };
  using Parts = std::vector<Part>;

  Parts parts_at(const Jet& points) {
    const auto made = [&] {
      Parts parts(forms_.size());
      const auto variables = autodiff::coordinates(points);
      for (size_t f = 0; f < forms_.size(); ++f) {
        if (forms_[f].empty()) continue;
        parts[f] = {forms_[f].values(variables), forms_[f].distance(variables)};
      }
      return parts;
    };
    return is_training() ? known_.of(points, made) : made();
  }

  std::vector<HardForm> forms_;
  std::shared_ptr<autodiff::FieldNet> network_;
  autodiff::JetMemo<Parts> known_;
};

}  // namespace

HardConditions::HardConditions(const Problem& problem, HardChoice choice) {
  const int64_t time = problem.time();
  const bool time_is_periodic =
      std::ranges::any_of(problem.conditions, [&](const Condition& c) {
        return c.is_periodic() && c.variable == time;
      });
  HardForm::Time from;
  if (time >= 0) from = {time, problem.domain[static_cast<size_t>(time)]};
  forms_.assign(problem.symbols.fields.size(), HardForm(from));
  if (time >= 0 && !time_is_periodic) take_initial(problem, choice.corners);
  if (choice.faces) take_faces(problem, choice.corners);
}

void HardConditions::take_initial(const Problem& problem, bool with_corners) {
  const auto time = static_cast<size_t>(problem.time());
  // Of each field by order, none where no condition gives it.
  struct Given {
    const Condition* condition = nullptr;
    ConditionValue value = {};
  };
  std::vector<std::vector<Given>> fields(forms_.size());
  std::set<int64_t> others;  // fields with conditions of another form
  for (const auto& condition : problem.conditions) {
    if (!holds_at_first(problem, condition)) continue;
    const auto derivatives = condition.derivatives();
    const auto& derivative = *derivatives.begin();
    const int64_t order = derivative.orders[time];
    auto& values = fields[static_cast<size_t>(derivative.field)];
    const auto given =
        derivatives.size() == 1 && order <= 1 && derivative.order() == order
            ? value_of(problem, condition, with_corners)
            : std::nullopt;
    const auto at = static_cast<size_t>(order);
    if (given && values.size() <= at) values.resize(at + 1);
    if (!given || values[at].condition != nullptr) {
      for (const auto& one : derivatives) others.insert(one.field);
      continue;
    }
    values[at] = {&condition, *given};
  }
  for (size_t f = 0; f < fields.size(); ++f) {
    const auto& values = fields[f];
    if (others.contains(static_cast<int64_t>(f)) || values.empty() ||
        values.front().condition == nullptr) {
      continue;
    }
    std::vector<ConditionValue> initial;
    for (const auto& [condition, value] : values) {
      met_.push_back(*condition);
      initial.push_back(value);
    }
    forms_[f].set_initial(std::move(initial));
  }
}

void HardConditions::take_faces(const Problem& problem, bool with_corners) {
  const int64_t time = problem.time();
  for (int64_t variable = 0; variable < std::ssize(problem.domain);
       ++variable) {
    if (variable == time) continue;
    std::set<std::pair<int64_t, double>> taken;  // of a field, the end
    for (const auto& condition : problem.conditions) {
      if (condition.variable != variable || condition.is_periodic()) continue;
      const auto derivatives = condition.derivatives();
      const auto& first = *derivatives.begin();
      if (derivatives.size() != 1 || first.order() != 0) continue;
      const auto value = value_of(problem, condition, with_corners);
      const std::pair end(first.field, condition.at);
      if (!value || taken.contains(end) ||
          !forms_[static_cast<size_t>(first.field)].add_face(
              problem, variable, condition.at, *value)) {
        continue;
      }
      taken.insert(end);
      met_.push_back(condition);
    }
  }
}

bool HardConditions::has(const Condition& condition) const {
  return std::ranges::find(met_, condition) != met_.end();
}

std::shared_ptr<autodiff::FieldNet> HardConditions::build_into(
    std::shared_ptr<autodiff::FieldNet> network) const {
  if (met_.empty()) return network;
  return std::make_shared<WithConditions>(forms_, std::move(network));
}

std::shared_ptr<SlabChain> HardConditions::build_into(
    SlabTime time,
    std::vector<std::shared_ptr<autodiff::FieldNet>> networks) const {
  auto forms = forms_;
  forms.resize(time.orders.size(), HardForm({time.variable, time.interval}));
  return std::make_shared<SlabChain>(std::move(time), std::move(forms),
                                     std::move(networks));
}

}  // namespace propagator::pde
