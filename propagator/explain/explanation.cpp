#include "propagator/explain/explanation.h"

#include "propagator/core/error.h"
#include "propagator/explain/attention_maps.h"
#include "propagator/explain/dependence.h"
#include "propagator/explain/leak_audit.h"
#include "propagator/explain/learned_propagator.h"
#include "propagator/explain/learned_step.h"
#include "propagator/explain/space_time_attention.h"
#include "propagator/tasks/drawing.h"

namespace propagator::explain {
namespace {

struct Explanation {
  tasks::Explainable& task;
  torch::nn::Module& model;
  int64_t seed;
  const ExplainOptions& options;
  report::Report& report;
  nlohmann::json numbers = nlohmann::json::object();

  bool wants(Part part) const { return options.only.value_or(part) == part; }
  void propagator(const std::string& mode);
  void step(const tasks::StepSubject& subject);
  void space_time(const tasks::StepSubject& subject);
  // Where the model attends to, and what its outputs depend on.
  void dependence();
};

void Explanation::propagator(const std::string& mode) {
  const auto subject = task.propagator_subject(model);
  if (!subject) return;
  const auto found =
      learn_propagator(*subject, seed, options.max_work, options.cell);
  numbers["learned_propagator"] = found.to_json();
  report.section("The learned propagator");
  report.text(
      "A propagator carries the first frame to a later one. Here is the one "
      "that the model has learned, its derivative with respect to frame 0, "
      "beside the true one of the finite-difference scheme.");
  report.text(fmt::format("The learned propagator: {}.", found.verdict()));
  if (mode == "published") {
    report.text(
        "This model is given every frame of the changed plate, the answer "
        "among them: what follows shows how well it copies.");
  }
  draw(found, *subject, report);
}

void Explanation::step(const tasks::StepSubject& subject) {
  const auto found = options.step != nullptr
                         ? *options.step
                         : learn_step(subject, options.cell, options.max_work);
  numbers["learned_step"] = found.to_json();
  report.section("The learned step");
  report.text(fmt::format(
      "How the next frame changes when a single cell does: the derivative of "
      "the model's step at the first frames of a test case{}. It has the "
      "identity in it where the network predicts changes.",
      found.truth.defined() ? ", beside the true one, " + found.law
                            : std::string()));
  report.text(fmt::format("The learned step: {}.", found.verdict()));
  if (!subject.repeated) {
    report.text(
        "Eigenvalues are left out: this model answers all later frames at once "
        "from the given ones, of which the step is the first, and repeats no "
        "step.");
  } else if (!found.eigenvalues.defined()) {
    const int64_t window = found.given * found.numbers();
    report.text(
        window > LearnedStep::kMostEigenvalues
            ? fmt::format("Eigenvalues are left out: the given frames have {} "
                          "numbers, and {} are the most.",
                          window, LearnedStep::kMostEigenvalues)
            : fmt::format("Eigenvalues are left out: they would take {:.2g} "
                          "times the work.",
                          found.work_for_eigenvalues / options.max_work));
  }
  draw(found, subject, report);
}

void Explanation::space_time(const tasks::StepSubject& subject) {
  const auto found = space_time_attention(model, subject, options.cell);
  if (!found) return;
  numbers["attention"] = found->to_json();
  draw(*found, subject, report);
}

void Explanation::dependence() {
  const auto subject = task.audit_subject(model);
  if (!subject) return;
  if (wants(Part::kAttention)) {
    const auto maps = attention_maps(model, *subject);
    if (maps.weights.defined()) draw(maps, report);
  }
  if (!wants(Part::kLeaks)) return;
  const auto audit = audit_leaks(*subject, seed);
  numbers["leak_audit"] = audit.to_json();
  report.section("Leak audit");
  report.text(
      "A forecast must not see its answer. All that is hidden is replaced by "
      "noise and by NaN; every output of the test, and of predict, has to keep "
      "its bits.");
  report.verdict(audit.leaks() == 0, audit.verdict());
  draw(find_dependence(*subject, seed), report);
}

// UsageError if the model has not the part that is asked for, or its grid not
// the cell.
void expect_options(const Explanation& e,
                    const std::optional<tasks::StepSubject>& step) {
  const auto& [max_work, cell, only, computed] = e.options;
  if (only == Part::kAttention && !has_attention(e.model)) {
    throw UsageError(
        "[explain] expected a model with attention, got one without any",
        "of the networks for fields space_time has attention");
  }
  if (only == Part::kLeaks && !e.task.audit_subject(e.model)) {
    throw UsageError("[explain] a run of this task has no leak audit");
  }
  if (step) {
    if (!cell.empty()) expect_cell(cell, cells_along(*step));
    return;
  }
  if ((only == Part::kPropagator || !cell.empty()) &&
      !e.task.propagator_subject(e.model)) {
    throw UsageError("[explain] a run of this task and data has no propagator",
                     "without --only and --cell there are the other parts");
  }
}

}  // namespace

double affordable_work(const torch::Device& device) {
  return device.is_cpu() ? 4e11 : 1e14;
}

nlohmann::json explain_model(tasks::Task& task, torch::nn::Module& model,
                             int64_t seed, const ExplainOptions& options,
                             report::Report& report) {
  model.eval();
  auto* explainable = dynamic_cast<tasks::Explainable*>(&task);
  const auto draw_model = [&] {
    report.section("Inside the model");
    auto* drawing = dynamic_cast<tasks::Drawing*>(&task);
    if (drawing != nullptr && !options.only) drawing->draw_model(model, report);
  };
  if (explainable == nullptr) {
    draw_model();
    return {};
  }
  Explanation explanation{*explainable, model, seed, options, report};
  const auto step = explainable->step_subject(model);
  expect_options(explanation, step);
  if (explanation.wants(Part::kPropagator)) {
    explanation.propagator(task.mode());
    if (step) explanation.step(*step);
  }
  draw_model();
  if (step && explanation.wants(Part::kAttention)) {
    explanation.space_time(*step);
  }
  explanation.dependence();
  return explanation.numbers;
}

}  // namespace propagator::explain
