#include <fmt/format.h>
#include <torch/utils.h>

#include <limits>

#include "propagator/core/plain_text.h"
#include "propagator/tasks/sequence/generation.h"
#include "propagator/tasks/sequence/sequence.h"

// What the page of a run shows of its sequences.

namespace propagator::tasks {
namespace {

using data::Split;
using data::Tokens;
using models::as_sequence;
using torch::Tensor;

constexpr int64_t kFewestExamples = 8;
constexpr int64_t kMapTokens = 48;  // of a text, in a map of attention

Tokens text_of_row(const Tensor& row) {
  const auto numbers = row.to(torch::kCPU).contiguous();
  Tokens tokens;
  for (int64_t n = 0; n < numbers.size(0); ++n) {
    const int64_t token = numbers.data_ptr<int64_t>()[n];
    if (token != data::kPad) tokens.push_back(token);
  }
  return tokens;
}

// Each token as text, for a caption.
std::string listed(const data::Tokenizer& tokenizer, const Tokens& tokens) {
  std::string list;
  for (const int64_t token : tokens) {
    const auto name = token == data::kEnd
                          ? "<eos>"
                          : plain_text(tokenizer.decode({{token}}), "");
    list += (list.empty() ? "" : " ") + (name == " " ? "␣" : name);
  }
  return list;
}

}  // namespace

void SequenceTask::draw_text(models::SequenceModel& model,
                             report::Report& report) {
  encode_text(model);
  const auto known = tokenizer(model);
  const auto window = text_windows(Split::kTest).target.narrow(0, 0, 1);
  const auto tokens = text_of_row(window[0]);
  const auto half = std::ssize(tokens) / 2;
  const Tokens given(tokens.begin(), tokens.begin() + half);
  Tokens first{data::kStart};
  first.insert(first.end(), given.begin(), given.end());
  const auto begun = torch::tensor(first).unsqueeze(0).to(runtime_.device);
  const auto none = torch::empty({1, 0}, begun.options());
  const auto shown = [&](const char* name, const nn::TokenChoice& choice) {
    const auto made =
        continued(model, none, begun, known->size(), choice,
                  2 * model.shape().target, RandomStream(0, "figures/text"));
    report.text(name);
    report.verbatim(
        plain_text(known->decode(given) + "|" + known->decode(made[0]), "\n"));
  };
  shown(
      "Text of the test and, after the bar, how the model goes on: the most "
      "probable token each time.",
      {});
  shown("The same drawn at temperature 0.8 from 0.9 of the probability.",
        {.temperature = 0.8, .top_p = 0.9});
  draw_attention(
      model, none,
      window.narrow(1, 0, std::min<int64_t>(std::ssize(tokens), kMapTokens)),
      report);
}

void SequenceTask::draw(torch::nn::Module& module, const Evaluation*,
                        int64_t cases, report::Report& report) {
  module.eval();
  const torch::NoGradGuard no_grad;
  auto& model = as_sequence(module);
  const auto known = tokenizer(module);
  if (text_) return draw_text(model, report);
  const auto& tested = pairs(Split::kTest);
  const int64_t count =
      std::min(tested.source.size(0), std::max(cases, kFewestExamples));
  const auto sources = tested.source.narrow(0, 0, count);
  const auto given = answers(model, sources);
  report::Table table({"given", "expected", "generated", ""});
  int64_t longest = 0;
  for (int64_t n = 0; n < count; ++n) {
    const auto source = text_of_row(sources[n]);
    auto target = text_of_row(tested.target[n]);
    target.pop_back();  // its end
    const auto& answer = given[static_cast<size_t>(n)];
    table.row({plain_text(known->decode(source)),
               plain_text(known->decode(target)),
               plain_text(known->decode(answer)),
               answer == target ? "exact" : "wrong"});
    if (source.size() > text_of_row(sources[longest]).size()) longest = n;
  }
  report.text(
      "Sequences of the test, and what greedy generation makes of "
      "them.");
  report.table(table);
  auto answer = given[static_cast<size_t>(longest)];
  answer.push_back(data::kEnd);
  answer.resize(std::min<size_t>(answer.size(),
                                 static_cast<size_t>(model.shape().target)));
  const auto source = text_of_row(sources[longest]);
  draw_attention(model, torch::tensor(source).unsqueeze(0).to(runtime_.device),
                 torch::tensor(answer).unsqueeze(0).to(runtime_.device),
                 report);
}

void SequenceTask::draw_attention(models::SequenceModel& model,
                                  const Tensor& source, const Tensor& target,
                                  report::Report& report) {
  std::vector<Tensor> layers;
  model.observe([&](const Tensor& weights, const nn::AttentionBias& bias) {
    auto mean = weights[0].mean(0).to(torch::kCPU, torch::kFloat64);
    const auto added = bias.added(mean.size(0), mean.size(1), torch::kFloat64);
    if (added.defined()) {
      mean.masked_fill_(added[0][0].isneginf(),
                        std::numeric_limits<double>::quiet_NaN());
    }
    layers.push_back(mean);
  });
  model.forward(source, target);
  model.observe({});
  if (layers.empty()) return;
  report::PanelRow row{.bar_label = "attention weight",
                       .range = std::pair(0.0, 1.0)};
  for (size_t n = 0; n < layers.size(); ++n) {
    row.panels.push_back(
        {.title = fmt::format("layer {}", n + 1), .values = layers[n]});
  }
  const auto known = tokenizer(model);
  const auto last = [&](int64_t dim) {
    return static_cast<double>(layers[0].size(dim) - 1);
  };
  report.figure(
      "sequence-attention",
      report::HeatMaps{.x = {.label = "token attended to", .last = last(1)},
                       .y = {.label = "token attending", .last = last(0)},
                       .rows = {row}},
      fmt::format(
          "Where the tokens attend to, mean of the heads, while this is "
          "generated{}{}: {}. Grey is hidden by the mask.",
          source.size(1) > 0 ? " after " : "",
          listed(*known, text_of_row(source[0])),
          listed(*known, text_of_row(target[0]))));
}

}  // namespace propagator::tasks
