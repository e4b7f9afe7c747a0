#include "propagator/explain/explanation.h"

#include "propagator/explain/attention_maps.h"
#include "propagator/explain/dependence.h"
#include "propagator/explain/leak_audit.h"
#include "propagator/explain/learned_propagator.h"
#include "propagator/tasks/drawing.h"

namespace propagator::explain {
namespace {

void explain_propagator(tasks::Explainable& task, const std::string& mode,
                        torch::nn::Module& model, int64_t seed, double max_work,
                        report::Report& report, nlohmann::json& numbers) {
  const auto subject = task.propagator_subject(model);
  if (!subject) return;
  const auto propagator = learn_propagator(*subject, seed, max_work);
  numbers["learned_propagator"] = propagator.to_json();
  report.section("The learned propagator");
  report.text(
      "A propagator carries the first frame to a later one. Here is the one "
      "that the model has learned, its derivative with respect to frame 0, "
      "beside the true one of the finite-difference scheme.");
  report.text(fmt::format("The learned propagator: {}.", propagator.verdict()));
  if (mode == "published") {
    report.text(
        "This model is given every frame of the changed plate, the answer "
        "among them: what follows shows how well it copies.");
  }
  draw(propagator, *subject, report);
}

// Where the model attends to, and what its outputs depend on.
void explain_dependence(tasks::Explainable& task, torch::nn::Module& model,
                        int64_t seed, report::Report& report,
                        nlohmann::json& numbers) {
  const auto subject = task.audit_subject(model);
  if (!subject) return;
  const auto maps = attention_maps(model, *subject);
  if (maps.weights.defined()) draw(maps, report);
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

}  // namespace

double affordable_work(const torch::Device& device) {
  return device.is_cpu() ? 4e11 : 1e14;
}

nlohmann::json explain_model(tasks::Task& task, torch::nn::Module& model,
                             int64_t seed, double max_work,
                             report::Report& report) {
  nlohmann::json numbers;
  model.eval();
  auto* explainable = dynamic_cast<tasks::Explainable*>(&task);
  if (explainable != nullptr) {
    explain_propagator(*explainable, task.mode(), model, seed, max_work, report,
                       numbers);
  }
  report.section("Inside the model");
  if (auto* drawing = dynamic_cast<tasks::Drawing*>(&task)) {
    drawing->draw_model(model, report);
  }
  if (explainable != nullptr) {
    explain_dependence(*explainable, model, seed, report, numbers);
  }
  return numbers;
}

}  // namespace propagator::explain
