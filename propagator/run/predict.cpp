#include "propagator/run/predict.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/run/vtk_answers.h"

namespace propagator::run {
namespace {

namespace fs = std::filesystem;
using tasks::Surrogate;

// A table of text has a number in each cell.
void expect_to_hold(const fs::path& path,
                    const std::vector<Surrogate::Port>& ports) {
  if (path.extension() != ".csv") return;
  for (const auto& port : ports) {
    if (port.shape.size() < 2) continue;
    throw UsageError(
        fmt::format("{}: a table cannot hold '{}', which has {} axes",
                    path.string(), port.name, port.shape.size()),
        "use an .h5 or .npz file");
  }
}

void expect_written(const fs::path& output,
                    const std::vector<Surrogate::Port>& inputs,
                    const std::vector<Surrogate::Port>& outputs) {
  if (is_vtk(output)) return expect_points(output, inputs, outputs);
  data::expect_written_table(output);
  expect_to_hold(output, outputs);
}

// Those of `columns` with the names of the inputs, or with others.
std::vector<data::Column> columns_of(const std::vector<data::Column>& columns,
                                     const std::vector<std::string>& names,
                                     bool are_inputs) {
  std::vector<data::Column> some;
  for (const auto& column : columns) {
    const bool is_input = std::ranges::count(names, column.name) > 0;
    if (is_input == are_inputs) some.push_back(column);
  }
  return some;
}

}  // namespace

std::string predict(const Run& run, const fs::path& input,
                    const fs::path& output) {
  const auto& surrogate = run.surrogate();
  const auto inputs = surrogate.inputs(), outputs = surrogate.outputs();
  expect_written(output, inputs, outputs);  // before the work
  data::expect_table(input);
  expect_to_hold(input, inputs);
  std::vector<std::string> names;
  for (const auto& port : inputs) names.push_back(port.name);
  const auto table = data::read_table(input, names);
  const RuntimeScope scope(run.runtime(), run.experiment().run().threads);
  const auto answers =
      data::blame_file(input, [&] { return run.apply(table); });
  std::vector<data::Column> columns;
  std::vector<std::string> written;
  for (const auto& port : outputs) {
    const auto& values = answers.at(port.name);
    columns.push_back({port.name, values});
    written.push_back(
        fmt::format("{} ({})", port.name, fmt::join(values.sizes(), ", ")));
  }
  const nlohmann::json note{{"made_by", "propagator predict"},
                            {"run", run.experiment().run().name},
                            {"checkpoint", run.checkpoint()}};
  if (is_vtk(output)) {
    write_vtk_answers(output, columns_of(columns, names, true),
                      columns_of(columns, names, false));
  } else {
    data::write_table(output, columns, note.dump());
  }
  return fmt::format("{} in {}", fmt::join(written, ", "), output.string());
}

}  // namespace propagator::run
