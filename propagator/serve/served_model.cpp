#include "propagator/serve/served_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/serve/datatype.h"
#include "propagator/tasks/described.h"
#include "propagator/tasks/guarded.h"
#include "propagator/tasks/joins_cases.h"
#include "propagator/tasks/writes_answers.h"

namespace propagator::serve {
namespace {

bool can_stand_in_url(const std::string& name) {
  return !name.empty() && name.front() != '.' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

nlohmann::json ports_as_json(const Ports& ports, torch::ScalarType type) {
  auto all = nlohmann::json::array();
  for (const auto& port : ports) {
    nlohmann::json parameters{{"meaning", port.meaning}};
    if (port.range) {
      parameters["low"] = port.range->first;
      parameters["high"] = port.range->second;
    }
    all.push_back({{"name", port.name},
                   {"datatype", name_of(datatype_of(type))},
                   {"shape", port.shape},
                   {"parameters", parameters}});
  }
  return all;
}

int64_t threads_of(const run::RunOptions& options) {
  return options.threads > 0 ? options.threads : all_cores();
}

const tasks::WritesAnswers* writer_of(const tasks::Surrogate& surrogate) {
  return dynamic_cast<const tasks::WritesAnswers*>(&surrogate);
}

}  // namespace

std::shared_ptr<const ServedModel> ServedModel::open(
    const std::string& text, const run::Change& change) {
  const auto equals = text.find('=');
  const bool named = equals != std::string::npos;
  const fs::path folder = named ? text.substr(equals + 1) : text;
  const auto name =
      named ? text.substr(0, equals)
            : (folder.has_filename() ? folder : folder.parent_path())
                  .filename()
                  .string();
  if (!can_stand_in_url(name)) {
    throw UsageError(
        fmt::format("[serve] expected a name of letters, digits, '-', '_' and "
                    "'.', got '{}'",
                    name),
        "NAME=FOLDER gives a run another name");
  }
  return std::make_shared<const ServedModel>(
      name, std::make_shared<const run::Run>(
                folder, run::OpenOptions{.change = change}));
}

ServedModel::ServedModel(std::string name, std::shared_ptr<const run::Run> run)
    : name_(std::move(name)),
      run_(std::move(run)),
      surrogate_(run_->surrogate()),
      inputs_(surrogate_.inputs()),
      outputs_(surrogate_.outputs()),
      threads_(threads_of(run_->experiment().run())),
      type_(writer_of(surrogate_) != nullptr ? run_->runtime().dtype()
                                             : torch::kFloat64) {}

bool ServedModel::has_guard() const {
  return dynamic_cast<const tasks::Guarded*>(&surrogate_) != nullptr;
}

nlohmann::json ServedModel::metadata() const {
  nlohmann::json parameters{{"guard", has_guard()}};
  const auto* described = dynamic_cast<const tasks::Described*>(&surrogate_);
  if (described != nullptr) parameters["details"] = described->details();
  return {{"name", name_},
          {"versions", {version()}},
          {"platform", "propagator_" + run_->experiment().run().task},
          {"inputs", ports_as_json(inputs_, type_)},
          {"outputs", ports_as_json(outputs_, type_)},
          {"parameters", parameters}};
}

void ServedModel::expect_answer_within(const NamedTensors& inputs,
                                       int64_t bytes) const {
  const auto* writer = writer_of(surrogate_);
  if (writer == nullptr) return;
  double size = 0;
  for (const auto& [name, shape] : writer->answer_shapes(inputs)) {
    double numbers = 1;
    for (const int64_t length : shape) numbers *= static_cast<double>(length);
    size += numbers * static_cast<double>(torch::elementSize(type_));
  }
  if (size <= static_cast<double>(bytes)) return;
  throw Refused(413,
                fmt::format("expected a request whose answer takes at most {} "
                            "bytes, got one of {:.3g}",
                            bytes, size),
                "ask for fewer cases at once");
}

std::optional<int64_t> ServedModel::cases_to_join(
    const NamedTensors& inputs) const {
  if (dynamic_cast<const tasks::JoinsCases*>(&surrogate_) == nullptr) {
    return std::nullopt;
  }
  std::optional<int64_t> cases;
  for (const auto& [name, values] : inputs) {
    if (values.dim() == 0 || values.size(0) == 0) return std::nullopt;
    if (cases.value_or(values.size(0)) != values.size(0)) return std::nullopt;
    cases = values.size(0);
  }
  return cases;
}

std::string ServedModel::layout(const NamedTensors& inputs) {
  std::string text;
  for (const auto& [name, values] : inputs) {
    text +=
        fmt::format("{} {} {};", name, static_cast<int>(values.scalar_type()),
                    fmt::join(values.sizes().slice(1), ","));
  }
  return text;
}

NamedTensors ServedModel::apply(const NamedTensors& inputs) const {
  auto answers = run::with_memory_hint(
      run_->experiment(), [&] { return surrogate_.apply(inputs); });
  for (auto& [name, values] : answers) {
    values = values.to(torch::kCPU, type_).contiguous();
  }
  return answers;
}

std::optional<tasks::Guard> ServedModel::guard(
    const NamedTensors& inputs, const NamedTensors& answers) const {
  const auto* guarded = dynamic_cast<const tasks::Guarded*>(&surrogate_);
  if (guarded == nullptr) return std::nullopt;
  return guarded->guard(inputs, answers);
}

}  // namespace propagator::serve
