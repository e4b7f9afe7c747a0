#include "propagator/pde/residual/corner_terms.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "propagator/autodiff/jet_memo.h"
#include "propagator/autodiff/point_gradients.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

// Beside 1, under a root: at the corner itself it has a derivative then.
constexpr const char* kAtCorner = "1e-30";

bool is_of_second_order(const Problem& problem, int64_t variable) {
  return std::ranges::any_of(
      problem.derivatives(), [&](const Derivative& derivative) {
        return derivative.orders[static_cast<size_t>(variable)] >= 2;
      });
}

// It owns all that it needs of the problem: a model may outlive its task.
class WithCornerTerms : public autodiff::FieldNet {
 public:
  WithCornerTerms(std::vector<Expression> formulas, std::vector<double> sizes,
                  std::shared_ptr<autodiff::FieldNet> network)
      : formulas_(std::move(formulas)),
        sizes_(std::move(sizes)),
        network_(register_module("network", std::move(network))),
        factors_(register_parameter(
            "corners",
            torch::zeros({std::ssize(formulas_) * std::ssize(sizes_)}))) {}

  Jet forward(const Jet& points) override {
    const auto answer = network_->forward(points);
    const auto terms = is_training()
                           ? known_.of(points, [&] { return terms_at(points); })
                           : terms_at(points);
    const auto shape = points.rows()[0].select(-1, 0).sizes();
    const auto factors =
        autodiff::PointGradients::at_each_point(factors_, {factors_}, shape);
    const auto networks = answer.rows().unbind(-1);
    std::vector<Tensor> fields;
    int64_t at = 0;
    for (size_t f = 0; f < networks.size(); ++f) {
      Jet field(networks[f], answer.layout());
      for (const auto& term : terms) {
        field = field + term * (factors.select(-1, at++) * sizes_[f]);
      }
      fields.push_back(field.rows());
    }
    return Jet(torch::stack(fields, -1), answer.layout());
  }
  void initialise(int64_t seed) override {
    network_->initialise(seed);
    const torch::NoGradGuard no_grad;
    factors_.zero_();
  }
  std::shared_ptr<void> hold() override { return network_->hold(); }

 private:
  std::vector<Jet> terms_at(const Jet& points) const {
    const auto variables = autodiff::coordinates(points);
    std::vector<Jet> terms;
    for (const auto& formula : formulas_) {
      terms.push_back(formula.evaluate({variables, {}}));
    }
    return terms;
  }

  std::vector<Expression> formulas_;
  std::vector<double> sizes_;
  std::shared_ptr<autodiff::FieldNet> network_;
  Tensor factors_;  // (fields · terms)
  autodiff::JetMemo<std::vector<Jet>> known_;
};

}  // namespace

CornerTerms::CornerTerms(const Problem& problem)
    : fields_(problem.symbols.fields.size()) {
  const auto space = problem.space();
  if (!problem.region || space.size() != 2 ||
      !is_of_second_order(problem, space[0]) ||
      !is_of_second_order(problem, space[1])) {
    return;
  }
  const auto name = [&](size_t n) {
    return problem.symbols.variables[static_cast<size_t>(space[n])];
  };
  const auto& box = problem.region->box();
  const double size =
      std::hypot(box.high[0] - box.low[0], box.high[1] - box.low[1]) / 2;
  for (const auto& corner : problem.region->inner_corners()) {
    const double power = std::numbers::pi / corner.angle;
    const auto along = [&](double x, double y) {
      return fmt::format(
          "({:.17g}*({} - ({:.17g})) + ({:.17g})*({} - ({:.17g})))", x / size,
          name(0), corner.x, y / size, name(1), corner.y);
    };
    const double c = std::cos(corner.middle), s = std::sin(corner.middle);
    const auto p = along(c, s), q = along(-s, c);
    const auto square = fmt::format("({}^2 + {}^2 + {})", p, q, kAtCorner);
    // r^ka wave(ka phi), with phi = 2 atan(q/(r + p)).
    const auto term = [&](int k, const char* wave) {
      return Expression::parse(
          fmt::format("{0}^{1:.17g}*{2}({3:.17g}*atan({4}/(sqrt({0}) + {5})))",
                      square, k * power / 2, wave, 2 * k * power, q, p),
          problem.symbols);
    };
    formulas_.push_back(term(1, "cos"));
    formulas_.push_back(term(2, "sin"));
    texts_.push_back(
        fmt::format("r^{:.3g} around ({:g}, {:g})", power, corner.x, corner.y));
  }
}

std::shared_ptr<autodiff::FieldNet> CornerTerms::add_to(
    std::shared_ptr<autodiff::FieldNet> network,
    std::vector<double> sizes) const {
  if (formulas_.empty()) return network;
  if (sizes.empty()) sizes.assign(fields_, 1);
  return std::make_shared<WithCornerTerms>(formulas_, std::move(sizes),
                                           std::move(network));
}

}  // namespace propagator::pde
