#include "propagator/explain/learned_step.h"

#include <ATen/ops/linalg_eigvals.h>
#include <fmt/ranges.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/progress.h"

namespace propagator::explain {
namespace {

using torch::Tensor;
using torch::autograd::grad;

constexpr int64_t kRowsAtOnce = 32;
constexpr int64_t kFewestCells = 8;
constexpr int64_t kEnoughCells = 64;  // where all of them are of no use
constexpr int64_t kMostNumbers = int64_t{1} << 25;  // of all rows: 256 MB
constexpr double kEigenvalueWork = 100;             // operations, times n³
// A modulus that is further above one is growth, and no rounding.
constexpr double kGrows = 1 + 1e-4;

// Rows of J, P, A^g, A^(g-1) and A, undefined where there is no truth.
struct Rows {
  Tensor model, carried = {}, truth = {}, kept = {}, once = {};
};

Tensor flat(const Tensor& gradient, int64_t from) {
  return gradient.detach().flatten(from).to(torch::kCPU, torch::kFloat64);
}

// Of outputs (R), numbers of a flat frame.
Rows rows_of(const tasks::StepSubject& subject, const Tensor& outputs) {
  const auto place =
      outputs.to(subject.window.device()).unsqueeze(1);  // (R, 1)
  const auto picked = [&](const Tensor& frames) {
    return frames.flatten(1).gather(1, place).sum();
  };
  auto windows = subject.window.unsqueeze(0)
                     .repeat_interleave(outputs.size(0), 0)
                     .detach()
                     .set_requires_grad(true);
  if (!subject.truth) {
    return {flat(grad({picked(subject.step(windows))}, {windows})[0], 2)};
  }
  // A change of the first frame, which the truth carries through the window.
  auto change = torch::zeros_like(windows.select(1, 0), torch::kFloat64)
                    .set_requires_grad(true);
  std::vector<Tensor> history{change};
  for (int64_t k = 1; k < windows.size(1); ++k) {
    history.push_back(subject.truth(history.back()));
  }
  const auto next = subject.step(
      windows + torch::stack(history, 1).to(windows.scalar_type()));
  const auto both =
      grad({picked(next)}, {windows, change}, {}, /*retain_graph=*/true);
  const auto of_truth = [&](const Tensor& frame) {
    return flat(grad({picked(frame)}, {change}, {}, /*retain_graph=*/true)[0],
                1);
  };
  return {flat(both[0], 2), flat(both[1], 1),
          of_truth(subject.truth(history.back())), of_truth(history.back()),
          of_truth(subject.truth(change))};
}

Rows all_rows(const tasks::StepSubject& subject,
              const std::vector<int64_t>& cells, int64_t channels) {
  const auto outputs =
      (torch::tensor(cells, torch::kInt64).unsqueeze(1) * channels +
       torch::arange(channels, torch::kInt64))
          .flatten();
  std::vector<Tensor> parts[5];
  Progress progress("learned step", outputs.size(0));
  for (int64_t n = 0; n < outputs.size(0); n += kRowsAtOnce) {
    const auto part = outputs.slice(0, n, n + kRowsAtOnce);
    const auto rows = rows_of(subject, part);
    const Tensor* each[] = {&rows.model, &rows.carried, &rows.truth, &rows.kept,
                            &rows.once};
    for (size_t k = 0; k < 5; ++k) {
      if (each[k]->defined()) parts[k].push_back(*each[k]);
    }
    progress.update(n + part.size(0));
  }
  const auto joined = [&](size_t k) {
    return parts[k].empty() ? Tensor() : torch::cat(parts[k]);
  };
  return {joined(0), joined(1), joined(2), joined(3), joined(4)};
}

double share(const Tensor& wrong, const Tensor& of) {
  return (wrong.norm() / of.norm()).item<double>();
}

int64_t number_of(const std::vector<int64_t>& cell,
                  const std::vector<int64_t>& nodes) {
  int64_t number = 0;
  for (size_t d = 0; d < nodes.size(); ++d)
    number = number * nodes[d] + cell[d];
  return number;
}

// All where there is work for them and they are of use, as a matrix or for
// eigenvalues; else some, spread evenly. The one to show is among them.
void choose_cells(LearnedStep& step, double affordable) {
  int64_t all = 1;
  for (const int64_t n : step.nodes) all *= n;
  const int64_t window = step.given * step.numbers();
  const auto fit =
      std::max<int64_t>(1, kMostNumbers / (step.channels * window));
  const bool useful =
      step.nodes.size() == 1 || window <= LearnedStep::kMostEigenvalues;
  const auto most = static_cast<double>(useful ? all : kEnoughCells);
  const int64_t count =
      std::min({all, fit,
                std::max(kFewestCells,
                         static_cast<int64_t>(std::min(affordable, most)))});
  const int64_t wanted = number_of(step.cell, step.nodes);
  for (int64_t n = 0; n < count; ++n) step.cells.push_back(n * all / count);
  const auto next = std::ranges::lower_bound(step.cells, wanted);
  step.shown = std::min<int64_t>(next - step.cells.begin(), count - 1);
  step.cells[static_cast<size_t>(step.shown)] = wanted;
}

// Largest modulus first.
Tensor eigenvalues_of(const Tensor& matrix) {
  const auto values = at::linalg_eigvals(matrix);
  return values.index_select(
      0, values.abs().argsort(/*dim=*/0, /*descending=*/true));
}

// Of windows (f_0 … f_(g-1)) to (f_1 … f_g): (g F, g F).
Tensor companion(const Tensor& rows) {
  const int64_t numbers = rows.size(2), all = rows.size(1) * numbers;
  auto matrix = torch::zeros({all, all}, torch::kFloat64);
  if (all > numbers) {
    matrix.slice(0, 0, all - numbers).slice(1, numbers).fill_diagonal_(1);
  }
  matrix.slice(0, all - numbers).copy_(rows.flatten(1));
  return matrix;
}

void compare(LearnedStep& step, const Rows& rows, const Tensor& ensemble) {
  step.at_cells = {share(rows.carried - rows.truth, rows.truth),
                   share(rows.kept - rows.truth, rows.truth)};
  step.last_frame =
      share(rows.model.select(1, step.given - 1) - rows.once, rows.once);
  const auto directions =
      ensemble.flatten(1).to(torch::kCPU, torch::kFloat64).t();  // (F, K)
  const auto along = [&](const Tensor& some) {
    return torch::matmul(some, directions);
  };
  const auto truth = along(rows.truth);
  step.in_data = {share(along(rows.carried) - truth, truth),
                  share(along(rows.kept) - truth, truth)};
}

std::string percent_of(double part) {
  return fmt::format("{:.3g} %", 100 * part);
}

double largest_modulus(const Tensor& values) {
  return values.defined() ? values.abs().max().item<double>()
                          : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

bool LearnedStep::every_cell() const {
  return std::ssize(cells) * channels == numbers();
}

int64_t LearnedStep::numbers() const {
  int64_t all = channels;
  for (const int64_t n : nodes) all *= n;
  return all;
}

double LearnedStep::largest() const { return largest_modulus(eigenvalues); }

double LearnedStep::true_largest() const {
  return largest_modulus(true_eigenvalues);
}

std::string LearnedStep::verdict() const {
  std::vector<std::string> parts;
  if (truth.defined()) {
    parts.push_back(fmt::format(
        "it differs from the true one by {} at {} single cells and by {} in "
        "the directions of the data ({} and {} of a model that keeps the last "
        "given frame)",
        percent_of(at_cells.learned), cells.size(), percent_of(in_data.learned),
        percent_of(at_cells.kept), percent_of(in_data.kept)));
  } else {
    parts.emplace_back("the true one of these fields is not known");
  }
  if (eigenvalues.defined()) {
    parts.push_back(
        fmt::format("its largest eigenvalue has modulus {:.5g}{}, so that "
                    "small changes {}",
                    largest(),
                    true_eigenvalues.defined()
                        ? fmt::format(" (true: {:.5g})", true_largest())
                        : std::string(),
                    largest() > kGrows ? "can grow from step to step"
                                       : "do not grow for long"));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

nlohmann::json LearnedStep::to_json() const {
  nlohmann::json json{{"verdict", verdict()},
                      {"cell", cell},
                      {"cells", cells.size()},
                      {"numbers_of_a_frame", numbers()},
                      {"given_frames", given}};
  std::vector<double> norms;
  for (int64_t k = 0; k < given; ++k) {
    norms.push_back(rows.select(1, k).norm().item<double>());
  }
  json["norm_per_frame"] = norms;
  if (truth.defined()) {
    json["truth"] = law;
    json["truth_error"] = truth_error;
    json["cell_error"] = at_cells.learned;
    json["cell_error_kept"] = at_cells.kept;
    json["data_error"] = in_data.learned;
    json["data_error_kept"] = in_data.kept;
    json["last_frame_error"] = last_frame;
  }
  if (eigenvalues.defined()) {
    json["largest_eigenvalue"] = largest();
    json["eigenvalues"] = eigenvalues.size(0);
    json["growing_eigenvalues"] =
        (eigenvalues.abs() > kGrows).sum().item<int64_t>();
  }
  if (true_eigenvalues.defined()) {
    json["true_largest_eigenvalue"] = true_largest();
  }
  return json;
}

std::vector<int64_t> cells_along(const tasks::StepSubject& subject) {
  return subject.window.sizes().slice(1, subject.axes.size()).vec();
}

void expect_cell(const std::vector<int64_t>& cell,
                 const std::vector<int64_t>& nodes) {
  bool good = cell.size() == nodes.size();
  for (size_t d = 0; good && d < cell.size(); ++d) {
    good = cell[d] >= 0 && cell[d] < nodes[d];
  }
  if (good) return;
  std::vector<std::string> ranges;
  for (const int64_t n : nodes) ranges.push_back(fmt::format("0 to {}", n - 1));
  throw UsageError(fmt::format(
      "[explain] expected a cell of {} place{}, {}, got {}", nodes.size(),
      nodes.size() == 1 ? "" : "s", fmt::join(ranges, " and "),
      cell.empty() ? "none" : fmt::format("{}", fmt::join(cell, ","))));
}

LearnedStep learn_step(const tasks::StepSubject& subject,
                       const std::vector<int64_t>& cell, double max_work) {
  LearnedStep step;
  step.given = subject.window.size(0);
  step.channels = subject.window.size(-1);
  step.nodes = cells_along(subject);
  step.cell = cell;
  if (cell.empty()) {
    for (const int64_t n : step.nodes) step.cell.push_back(n / 2);
  }
  expect_cell(step.cell, step.nodes);
  choose_cells(step,
               max_work / (subject.work * static_cast<double>(step.channels)));
  const auto rows = all_rows(subject, step.cells, step.channels);
  if (!torch::isfinite(rows.model).all().item<bool>()) {
    throw NumericalError("[explain] the derivative of a step is not finite");
  }
  step.rows = rows.model;
  if (subject.truth) {
    step.carried = rows.carried;
    step.truth = rows.truth;
    step.law = subject.law;
    step.truth_error = subject.truth_error;
    compare(step, rows, subject.ensemble);
  }
  const auto size = static_cast<double>(step.given * step.numbers());
  step.work_for_eigenvalues =
      std::max(kEigenvalueWork * size * size * size,
               subject.work * static_cast<double>(step.numbers()));
  if (subject.repeated && step.every_cell() &&
      size <= LearnedStep::kMostEigenvalues &&
      step.work_for_eigenvalues <= max_work) {
    step.eigenvalues = eigenvalues_of(companion(step.rows));
    if (subject.truth) step.true_eigenvalues = eigenvalues_of(rows.once);
  }
  return step;
}

}  // namespace propagator::explain
