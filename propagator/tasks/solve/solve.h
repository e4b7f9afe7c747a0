#pragma once

#include <optional>

#include "propagator/models/field_net.h"
#include "propagator/pde/reference/classical_answer.h"
#include "propagator/pde/residual/balance.h"
#include "propagator/pde/residual/collocation.h"
#include "propagator/pde/residual/initial_conditions.h"
#include "propagator/pde/residual/periodic_embedding.h"
#include "propagator/pde/residual/residuals.h"
#include "propagator/train/task.h"

namespace propagator::tasks {

// The network that solves a problem unless another is chosen.
inline constexpr const char* kSolver = "spformer-small";

struct ProblemOptions {
  pde::ProblemText text;

  void describe(config::Schema& schema);
};

struct PointOptions {
  pde::Sampling sampling = pde::Sampling::kSobol;
  int64_t per_axis = 31;
  int64_t window = 2;
  double window_step = 1e-4;
  int64_t validation_per_axis = 20;
  int64_t resample_every = 3;
  bool adaptive = true;

  void describe(config::Schema& schema);
};

struct SolveLossOptions {
  double equation = 1;
  double initial = 100;
  double boundary = 100;
  pde::Balance balance = pde::Balance::kFixed;
  int64_t balance_every = 5;
  double balance_rate = 0.5;
  double causality = 0;
  int64_t slabs = 20;

  void describe(config::Schema& schema);
};

struct SolveEvalOptions {
  int64_t per_axis = 101;
  std::vector<std::string> quantities;
  bool classical = true;

  void describe(config::Schema& schema);
};

// Which conditions are hard constraints. kAll: also initial conditions whose
// corners, or jumps where a variable is periodic, the answer then keeps.
enum class HardConstraints { kNo, kYes, kAll };

// Task `solve`: given only the equations of fields and their conditions, what
// is the solution? The S-Pformer paper. A network is trained until the
// equations' residuals at points of the domain, and those of the conditions on
// its faces, are small in the mean square.
class Solve : public train::Task {
 public:
  // With defaults for so many variables.
  Solve(std::unique_ptr<models::FieldNetOptions> model, int64_t variables);

  void describe(config::Schema& schema) override;
  std::map<std::string, std::string> defaults() const override;
  void validate() override;
  std::vector<train::UnusedOption> unused_options() const override;
  std::vector<std::string> inspect() override;
  std::string mode() const override { return config::name_of(derivatives_); }
  void prepare(int64_t seed, const Runtime& runtime) override;
  std::shared_ptr<torch::nn::Module> make_model() const override;
  void initialise(torch::nn::Module& model, int64_t seed) const override;
  void begin_step(torch::nn::Module& model, int64_t step) override;
  std::map<std::string, torch::Tensor> state() const override;
  void restore(const std::map<std::string, torch::Tensor>& state) override;
  int64_t size(data::Split split) const override;
  train::Loss loss(torch::nn::Module& model, data::Split split,
                   const torch::Tensor& positions) override;
  bool data_on_device() const override { return true; }
  nlohmann::json evaluate(torch::nn::Module& model, data::Split split) override;
  train::Summary summary(const nlohmann::json& result) const override;
  std::vector<train::Metric> metrics(
      const nlohmann::json& result) const override;
  bool failed(const nlohmann::json& result) const override;
  report::LinePlot curves(const nlohmann::json& result) const override;
  void draw(torch::nn::Module& model, const nlohmann::json& result,
            int64_t cases, report::Report& report) override;
  // Errors beside the document's, and of each problem the rows' fields.
  std::vector<train::NamedFigure> draw_rows(
      std::span<const train::ReproducedRow> rows) const override;
  std::optional<report::FieldMaps> maps(torch::nn::Module& model) override;
  std::string predict(torch::nn::Module& model, const std::string& input,
                      const std::string& output,
                      const Runtime& runtime) override;

  const pde::Problem& problem() const { return *problem_; }

 private:
  models::FieldDomain domain() const;
  int64_t tokens() const;  // of a window
  // Points (N, D) as windows (N, T, D), on the device.
  torch::Tensor windows_of(const torch::Tensor& points) const;
  // The first that is learned on a condition's face. Its points are drawn, and
  // are those of the others there too, which share its tensor.
  const pde::Condition& first_on_face(const pde::Condition& condition) const;
  bool has_own_points(const pde::Face& face) const;
  // Points on a condition's face, those of its drawing `round`.
  pde::Face face_of(const pde::Condition& condition, int64_t round) const;
  std::vector<pde::Face> first_faces()
      const;  // of all that are learned, as drawn
  // Resamples all points; `adaptive` ones where the model's residual is large.
  void resample(models::FieldNet& model, int64_t round);
  torch::Tensor adaptive_points(models::FieldNet& model, int64_t round) const;
  void rebalance(models::FieldNet& model, int64_t step);
  // In training. An equation alone has nothing to be balanced with.
  bool weights_change() const {
    return loss_options_.balance != pde::Balance::kFixed && !faces_.empty();
  }
  // Lets points count by how well those at earlier times are solved.
  void order_in_time(models::FieldNet& model);
  void find_slabs();
  // What the equations leave at training points, all if no positions are
  // given, times the root of how much each point counts.
  std::vector<torch::Tensor> in_order_of_time(
      std::vector<torch::Tensor> residuals,
      const std::optional<torch::Tensor>& positions = {}) const;
  // Whether it is a hard constraint.
  bool is_hard(const pde::Condition& condition) const;
  // The conditions that are terms of the loss, as they come.
  std::vector<const pde::Condition*> learned_conditions() const;
  // Of a condition, no other one's.
  const std::string& name_of(const pde::Condition& condition) const;
  // Equation first, then those that are learned.
  std::vector<std::string> term_names() const;
  std::vector<double> fixed_weights() const;
  void expect_exact_solution() const;  // ConfigError if there is a wrong one
  // ConfigError if the model does not have these derivatives; `needed` says by
  // whom: "the problem needs".
  void expect_smooth_enough(const std::set<autodiff::Derivative>& named,
                            const char* needed) const;
  // ConfigError if so many points along each variable are too many in all.
  void expect_countable(const char* key, int64_t per_axis) const;
  // ConfigError names a formula that is not finite at one of the points.
  void expect_finite_formulas() const;
  // What `predict` writes: eval.quantities, else the fields. UsageError if one
  // cannot be read, or the model does not have its derivatives.
  std::vector<std::pair<std::string, pde::Expression>> quantities() const;
  struct Answer {
    torch::Tensor fields;     // (N, F), on the CPU
    torch::Tensor residuals;  // (N, equations)
  };
  // At the test points.
  torch::Tensor test_points() const;
  Answer answer_of(models::FieldNet& model) const;
  // The plane of pictures. Of three variables one is held, at S cells.
  struct Plane {
    int64_t up = 0, across = 1, held = -1;
    std::vector<int64_t> cells = {};
  };
  std::optional<Plane> plane() const;  // none of fewer variables, or more
  // Its fields beside the solution, and values (N, K) at the test points, as
  // pictures (K S, R, C); what is held at each of the S.
  report::FieldMaps maps_of(const Answer& answer, const Plane& plane);
  torch::Tensor pictures(const torch::Tensor& values, const Plane& plane) const;
  std::vector<std::string> held_at(const Plane& plane) const;
  report::Axis axis(int64_t variable) const;  // of the centres of cells
  double aspect(const Plane& plane) const;    // height over width
  void draw_maps(const Answer& answer, const Plane& plane,
                 report::Report& report);
  // The solution at the test points, if one is to be had; found once.
  const pde::Reference* reference();
  nlohmann::json classical(double error);
  // Along the variable that a reader follows: time, or the first one.
  nlohmann::json error_along(const torch::Tensor& answer,
                             const torch::Tensor& truth) const;

  int64_t variables_;  // as its defaults are for
  ProblemOptions problem_options_;
  PointOptions points_;
  std::string model_name_ = kSolver;
  std::unique_ptr<models::FieldNetOptions> model_options_;
  SolveLossOptions loss_options_;
  SolveEvalOptions eval_options_;

  pde::Derivatives derivatives_ = pde::Derivatives::kHonest;
  HardConstraints hard_constraints_ = HardConstraints::kYes;

  // Parsed by `validate`, which every use of the task passes.
  std::optional<pde::Problem> problem_;
  std::vector<std::string> condition_names_;
  pde::HardInitialConditions initial_conditions_;
  pde::PeriodicEmbedding periodic_;
  Runtime runtime_;
  int64_t seed_ = 0;
  pde::Residuals residuals_;
  torch::Tensor windows_;     // (N, T, D), in the domain
  torch::Tensor validation_;  // (N, T, D)
  torch::Tensor slab_of_;     // (N), the slab of time that a window begins in
  torch::Tensor counts_;      // (slabs), how much its points count
  std::vector<pde::Face> faces_;
  pde::MeanSquares mean_squares_;
  torch::Tensor weights_;        // of the terms, in training
  torch::Tensor fixed_weights_;  // and in validation
  std::optional<pde::Reference> reference_;
  std::string no_reference_;  // why there is none
};

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::HardConstraints> {
  using enum tasks::HardConstraints;
  static constexpr std::pair<tasks::HardConstraints, const char*> all[] = {
      {kNo, "no"}, {kYes, "yes"}, {kAll, "all"}};
};

}  // namespace propagator::config
