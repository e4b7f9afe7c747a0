#pragma once

#include <optional>

#include "propagator/models/field_net.h"
#include "propagator/pde/residual/corner_terms.h"
#include "propagator/pde/residual/residuals.h"
#include "propagator/tasks/drawing.h"
#include "propagator/tasks/registry.h"
#include "propagator/tasks/solve/recipe.h"
#include "propagator/tasks/solve/slab_plan.h"
#include "propagator/tasks/solve/solve_conditions.h"
#include "propagator/tasks/solve/solve_loss.h"
#include "propagator/tasks/solve/solve_options.h"
#include "propagator/tasks/solve/solve_plane.h"
#include "propagator/tasks/solve/solve_points.h"
#include "propagator/tasks/solve/solve_reference.h"
#include "propagator/train/redrawable.h"

namespace propagator::tasks {

// The network that solves a problem unless the recipe or a configuration takes
// another.
inline constexpr const char* kSolver = "spformer-small";

// What `predict` writes, by name.
using Quantities = std::vector<std::pair<std::string, pde::Expression>>;

// Task `solve`: given only the equations of fields and their conditions, what
// is the solution? From the S-Pformer paper. A network is trained until the
// equations' residuals at points of the domain, and those of the conditions on
// its faces, are small in the mean square.
class Solve : public Task, public Drawing, public train::Redrawable {
 public:
  // `defaults` are the recipe's.
  Solve(std::unique_ptr<models::FieldNetOptions> model, Recipe recipe,
        std::map<std::string, std::string> defaults);

  void describe(config::Schema& schema) override;
  std::map<std::string, std::string> defaults() const override;
  void validate() override;
  std::vector<config::UnusedOption> unused_options() const override;
  std::vector<std::string> metric_names() const override;
  std::vector<std::string> foreign_keys() const override;
  std::vector<std::string> inspect() override;
  std::string mode() const override { return config::name_of(derivatives_); }
  void prepare(int64_t seed, const Runtime& runtime) override;
  std::shared_ptr<torch::nn::Module> make_model() const override;
  void initialise(torch::nn::Module& model, int64_t seed) const override;
  void begin_step(torch::nn::Module& model, int64_t step) override;
  bool redraw(torch::nn::Module& model, int64_t step) override;
  bool ends_stage(const train::Standing& standing) override;
  bool begin_stage(torch::nn::Module& model) override;
  train::NamedTensors state() const override;
  void restore(const train::NamedTensors& state) override;
  int64_t size(data::Split split) const override;
  train::Loss loss(torch::nn::Module& model, data::Split split,
                   const torch::Tensor& positions) override;
  train::LeastSquares least_squares(torch::nn::Module& model,
                                    const torch::Tensor* flat) override;
  bool data_on_device() const override { return true; }
  train::NamedTensors learned() const override { return loss_.learned(); }
  // Weights of the loss were the model's once.
  std::vector<std::string> former_parameters() const override;
  Evaluation evaluate(torch::nn::Module& model, data::Split split) override;
  std::unique_ptr<Surrogate> surrogate(std::shared_ptr<torch::nn::Module> model,
                                       const Runtime& runtime) const override;
  void state_problem(report::Report& report) const override;
  void draw(torch::nn::Module& model, const Evaluation* evaluation,
            int64_t cases, report::Report& report) override;
  // Errors beside the paper's, and of each problem the rows' fields.
  std::vector<NamedFigure> draw_rows(
      std::span<const ReproducedRow> rows) const override;
  std::optional<report::FieldMaps> maps(torch::nn::Module& model) override;
  std::optional<report::GridSeries> grid(torch::nn::Module& model) override;

  const pde::Problem& problem() const { return *problem_; }

 protected:
  virtual pde::Posed posed() const { return pde::Posed::kByConditions; }
  // What else a task reads of its configuration, once the problem is known.
  virtual void validate_own() {}
  // What `predict` writes besides, as formulas of the network's answers.
  virtual Quantities own_quantities() const { return {}; }
  // Terms of the loss beside those of the problem; asked for by `validate`.
  virtual std::vector<OwnTerm> own_terms() { return {}; }
  // What a test of one kind measures beside errors and residuals.
  virtual void measure(models::FieldNet&, nlohmann::json& /*numbers*/) {}
  // What it says of that, in the table and below it.
  virtual void present_own(const nlohmann::json& /*numbers*/,
                           Evaluation&) const {}
  // Readings (M) of a field at points (M, D), to be drawn in; undefined in a
  // task without readings.
  struct Readings {
    torch::Tensor points = {}, values = {};
  };
  virtual Readings readings_of(int64_t /*field*/) const { return {}; }
  // What a test takes no notice of in each field.
  virtual SolveReference::Freedoms freedoms() const;
  // Of the network: the fields, and what a task asks of it besides.
  virtual int64_t outputs() const {
    return std::ssize(problem_->symbols.fields);
  }

  virtual models::FieldDomain domain() const;
  TimeWindows windows() const;
  void say_how() const;  // it is solved, before the first step
  std::string scale_text() const;
  // Why time cannot be cut into slabs; empty: it can.
  std::string why_no_slabs() const;
  // Points (N, D) as windows (N, T, D), on the device.
  torch::Tensor windows_of(const torch::Tensor& points) const {
    return windows().of(points, runtime_);
  }
  // What `predict` writes: eval.quantities, else the fields. UsageError if one
  // cannot be read, or the model does not have its derivatives.
  Quantities quantities() const;
  struct Answer {
    torch::Tensor fields;     // (N, F), on the CPU
    torch::Tensor residuals;  // (N, equations)
  };
  // Figures of a test beside those of fields and residuals.
  virtual void draw_own(models::FieldNet&, report::Report&) {}
  // Fields (N, F) over a grid that a reader moves through, on the CPU; no truth
  // if none is known.
  struct Explored {
    TestGrid grid;
    torch::Tensor answer, truth = {};
  };
  virtual Explored explored(models::FieldNet& model, const Answer& answer);
  // What the numbers of a test say: table, remarks, metrics, curves.
  Evaluation present(nlohmann::json numbers) const;
  report::LinePlot curves(const nlohmann::json& numbers) const;
  // At the test points.
  Answer answer_of(models::FieldNet& model) const;
  // All that the network says at points (N, D): (N, outputs), on the CPU.
  torch::Tensor outputs_at(models::FieldNet& model,
                           const torch::Tensor& points) const;
  std::optional<SolvePlane> plane() const {
    return SolvePlane::of(reference_.grid(), problem_->time(),
                          problem_->parameter());
  }
  // Its fields beside the solution.
  report::FieldMaps maps_of(const Answer& answer, const SolvePlane& plane);
  void draw_maps(const Answer& answer, const SolvePlane& plane,
                 report::Report& report);
  // Where a field was read near each of the plane's places, and what a caption
  // says of that.
  std::vector<report::Dots> dots_of(const Readings& read,
                                    const SolvePlane& plane) const;
  std::string remark_on(const Readings& read, const SolvePlane& plane) const;
  // How far from what is held readings are drawn.
  double reach_of(const SolvePlane& plane) const;
  // So many of a grid that an explorer of it stays small.
  std::vector<int64_t> explorer_strides(const TestGrid& grid) const;
  // All readings of each field, by their places on the plane and what is held;
  // none in a task without readings.
  std::vector<report::Sensors> sensors_on(const SolvePlane& plane) const;
  void draw_explorer(const Explored& fields, report::Report& report) const;
  // The fields of one variable, as curves.
  void draw_curves(const Answer& answer, report::Report& report);
  // "exact" or "reference"
  const char* truth_name() const;

  Recipe recipe_;
  std::map<std::string, std::string> defaults_;
  ProblemOptions problem_options_;
  PointOptions point_options_;
  SlabOptions slab_options_;
  std::string model_name_ = kSolver;
  std::unique_ptr<models::FieldNetOptions> model_options_;
  SolveLossOptions loss_options_;
  SolveEvalOptions eval_options_;
  pde::Derivatives derivatives_ = pde::Derivatives::kHonest;
  HardConstraints hard_constraints_ = HardConstraints::kYes;
  bool scaled_ = true, has_corners_ = true;

  // Made by `validate`, which every use of the task passes; the others refer to
  // the problem and its conditions.
  std::optional<pde::Problem> problem_;
  SolveConditions conditions_;
  pde::ProblemScale scale_;
  pde::CornerTerms corners_;
  SolveLoss loss_;
  SolveReference reference_;
  std::optional<pde::SlabTime> slab_time_;  // if there may be slabs
  // Made by `prepare`.
  Runtime runtime_;
  pde::Residuals residuals_;  // in the problem's units
  SolvePoints points_;
  int64_t seed_ = 0;
  SlabPlan slabs_;
  SlabPlan::Next next_stage_ = SlabPlan::Next::kGoOn;
};

// ConfigError of readings in a section that is not theirs.
void expect_no_observations(const config::Document& document);

// A task of a problem, with the network that the document names, or else the
// recipe, or else `otherwise`.
template <class T>
std::unique_ptr<Task> make_solver(const config::Document& document,
                                  Recipe recipe, const char* otherwise) {
  expect_no_observations(document);
  const auto defaults = defaults_of(recipe, document);
  const auto network = defaults.find("model.name");
  return std::make_unique<T>(
      find_kind(models::field_nets(), document, "model.name",
                network == defaults.end() ? otherwise : network->second)
          .options(),
      recipe, defaults);
}

TaskKind solve_kind();

}  // namespace propagator::tasks
