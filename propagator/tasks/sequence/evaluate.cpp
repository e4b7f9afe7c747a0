#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/nn/memory_attention.h"
#include "propagator/tasks/joins_cases.h"
#include "propagator/tasks/sequence/generation.h"
#include "propagator/tasks/sequence/sequence.h"

// How sequences are tested and written.

namespace propagator::tasks {
namespace {

using data::Split;
using data::Tokens;
using models::as_sequence;
using torch::Tensor;

constexpr const char* kWrong = "wrong sequences (%)";
constexpr const char* kEntropy = "cross-entropy (nats a token)";
constexpr const char* kBits = "bits a character";

// Attention as it is asked for, soft again at the end.
class AttentionScope {
 public:
  AttentionScope(torch::nn::Module& model, AttentionMode mode)
      : model_(mode == AttentionMode::kHard ? &model : nullptr) {
    if (model_) nn::set_hard_attention(*model_, true);
  }
  ~AttentionScope() {
    if (model_) nn::set_hard_attention(*model_, false);
  }
  AttentionScope(const AttentionScope&) = delete;
  AttentionScope& operator=(const AttentionScope&) = delete;

 private:
  torch::nn::Module* model_;
};

// Over all targets: nats, and tokens.
std::pair<double, int64_t> total_nats(models::SequenceModel& model,
                                      const SequencePairs& pairs,
                                      int64_t batch) {
  const torch::NoGradGuard no_grad;
  double nats = 0;
  int64_t count = 0;
  for (int64_t n = 0; n < pairs.target.size(0); n += batch) {
    const auto [values, counted] =
        token_log_probs(model, {pairs.source.slice(0, n, n + batch),
                                pairs.target.slice(0, n, n + batch)});
    nats -= values.to(torch::kFloat64).sum().item<double>();
    count += counted.sum().item<int64_t>();
  }
  if (!std::isfinite(nats)) {
    throw NumericalError("[eval] a probability is not finite");
  }
  return {nats, count};
}

// A row's tokens before padding and end.
Tokens tokens_of(const Tensor& row) {
  Tokens tokens;
  const auto flat = row.to(torch::kCPU).contiguous();
  for (int64_t n = 0; n < flat.size(0); ++n) {
    const int64_t token = flat.data_ptr<int64_t>()[n];
    if (token == data::kPad || token == data::kEnd) break;
    tokens.push_back(token);
  }
  return tokens;
}

class SequenceSurrogate : public Surrogate, public JoinsCases {
 public:
  SequenceSurrogate(std::shared_ptr<torch::nn::Module> model,
                    const Runtime& runtime)
      : model_(std::move(model)), runtime_(runtime) {
    model_->eval();
  }

  std::vector<Port> inputs() const override {
    return {{"source", {-1, -1}, "numbers of tokens; 0 behind a shorter one"},
            {"target", {-1, -1}, "numbers of tokens; 2 is their end"}};
  }
  std::vector<Port> outputs() const override {
    return {{"log_probability", {-1}, "of each target, in nats"}};
  }

  NamedTensors apply(const NamedTensors& inputs) const override {
    const torch::NoGradGuard no_grad;
    const PrecisionScope scope(runtime_);
    const auto found =
        token_log_probs(as_sequence(*model_),
                        {tokens(inputs, "source"), tokens(inputs, "target")});
    const auto answer = found.values.to(torch::kCPU, torch::kFloat64).sum(1);
    if (!torch::isfinite(answer).all().item<bool>()) {
      throw NumericalError("[predict] a probability is not finite");
    }
    return {{"log_probability", answer}};
  }

 private:
  Tensor tokens(const NamedTensors& inputs, const std::string& name) const {
    const auto found = inputs.find(name);
    const int64_t most = as_sequence(*model_).shape().tokens;
    if (found == inputs.end() || found->second.dim() != 2) {
      throw UsageError("[predict] expected " + name + " (cases, tokens)");
    }
    const auto& numbers = found->second;
    const bool known =
        (torch::isfinite(numbers.to(torch::kFloat64)) & (numbers >= 0) &
         (numbers < most) & (numbers == numbers.floor()))
            .all()
            .item<bool>();
    if (!known) {
      throw UsageError(
          fmt::format("[predict] expected {} to be whole numbers from 0 to {}",
                      name, most - 1));
    }
    return numbers.to(runtime_.device, torch::kInt64);
  }

  std::shared_ptr<torch::nn::Module> model_;
  Runtime runtime_;
};

}  // namespace

std::vector<std::string> SequenceTask::metric_names() const {
  if (data_options_.is_text()) return {kBits, kEntropy};
  return {kWrong, kEntropy};
}

std::vector<Tokens> SequenceTask::answers(models::SequenceModel& model,
                                          const Tensor& sources) const {
  // Sources of one length at a time: so none is padded.
  std::map<int64_t, std::vector<int64_t>> by_length;
  const auto lengths = (sources != data::kPad).sum(1).cpu();
  for (int64_t n = 0; n < sources.size(0); ++n) {
    by_length[lengths[n].item<int64_t>()].push_back(n);
  }
  std::vector<Tokens> answers(static_cast<size_t>(sources.size(0)));
  for (const auto& [length, rows] : by_length) {
    for (size_t n = 0; n < rows.size();
         n += static_cast<size_t>(eval_options_.batch)) {
      const std::vector<int64_t> part(
          rows.begin() + static_cast<std::ptrdiff_t>(n),
          rows.begin() +
              static_cast<std::ptrdiff_t>(std::min(
                  rows.size(), n + static_cast<size_t>(eval_options_.batch))));
      const auto source =
          sources.index_select(0, torch::tensor(part).to(sources.device()))
              .narrow(1, 0, length);
      const auto state = model.begin(source);
      const auto made = generate_tokens(
          *state,
          torch::full({source.size(0), 1}, data::kStart, source.options()), {},
          model.shape().target, RandomStream(0, "greedy"));
      for (size_t row = 0; row < part.size(); ++row) {
        auto& answer = answers[static_cast<size_t>(part[row])];
        answer = made.tokens[row];
        // What does not end is not what was wanted, whatever it begins with.
        if (!made.ended[row]) answer.push_back(data::kPad);
      }
    }
  }
  return answers;
}

Evaluation SequenceTask::evaluate_pairs(models::SequenceModel& model,
                                        Split split) {
  const auto& tested = pairs(split);
  const auto [nats, count] = total_nats(model, tested, eval_options_.batch);
  const auto given = answers(model, tested.source);
  int64_t exact = 0;
  for (size_t n = 0; n < given.size(); ++n) {
    exact += given[n] == tokens_of(tested.target[static_cast<int64_t>(n)]);
  }
  const auto cases = tested.target.size(0);
  const double entropy = nats / static_cast<double>(count);
  const double right =
      100 * static_cast<double>(exact) / static_cast<double>(cases);
  Evaluation evaluation;
  evaluation.numbers = {
      {"sequences", cases},       {"exact", exact},
      {"exact_percent", right},   {"tokens", count},
      {"cross_entropy", entropy}, {"perplexity", std::exp(entropy)}};
  report::Table table({"", "test"});
  table.row({"sequences that are exact",
             fmt::format("{} of {} ({:.2f} %)", exact, cases, right)});
  table.row({"cross-entropy", fmt::format("{:.3e} nats a token", entropy)});
  table.row({"perplexity", fmt::format("{:.6f}", std::exp(entropy))});
  evaluation.table = table;
  evaluation.metrics = {{kWrong, 100 - right}, {kEntropy, entropy}};
  evaluation.remarks = {
      data_options_.is_drawn()
          ? fmt::format("{} sequences that training has not; exact: every "
                        "token and the end, chosen greedily",
                        cases)
          : "the phrases themselves: this says what is remembered"};
  return evaluation;
}

Evaluation SequenceTask::evaluate_text(models::SequenceModel& model,
                                       Split split) {
  encode_text(model);
  const auto [nats, count] =
      total_nats(model, text_windows(split), eval_options_.batch);
  // Byte pairs take what is no UTF-8: then characters are bytes.
  int64_t characters = std::ssize(text(split));
  try {
    characters = std::ssize(data::characters_of(text(split)));
  } catch (const DataError&) {
  }
  const double entropy = nats / static_cast<double>(count);
  const double bits =
      nats / static_cast<double>(characters) / std::numbers::ln2;
  Evaluation evaluation;
  evaluation.numbers = {{"characters", characters},
                        {"tokens", count},
                        {"bits_a_character", bits},
                        {"cross_entropy", entropy},
                        {"perplexity", std::exp(entropy)}};
  report::Table table({"", "test"});
  table.row({"bits a character", fmt::format("{:.4f}", bits)});
  table.row({"cross-entropy", fmt::format("{:.4f} nats a token", entropy)});
  table.row(
      {"perplexity", fmt::format("{:.3f} of a token", std::exp(entropy))});
  evaluation.table = table;
  evaluation.metrics = {{kBits, bits}, {kEntropy, entropy}};
  evaluation.remarks = {fmt::format(
      "{} characters, {} tokens of text that training has not, in windows of "
      "{}: the first token of each has nothing before it",
      characters, count, data_options_.window)};
  return evaluation;
}

Evaluation SequenceTask::evaluate(torch::nn::Module& module, Split split) {
  module.eval();
  const PrecisionScope scope(runtime_);
  const AttentionScope attention(module, eval_options_.attention);
  auto& model = as_sequence(module);
  auto evaluation =
      text_ ? evaluate_text(model, split) : evaluate_pairs(model, split);
  if (eval_options_.attention == AttentionMode::kHard) {
    evaluation.remarks.push_back(
        "hard attention: each query took the value of its best key alone");
  }
  return evaluation;
}

std::unique_ptr<Surrogate> SequenceTask::surrogate(
    std::shared_ptr<torch::nn::Module> model, const Runtime& runtime) const {
  return std::make_unique<SequenceSurrogate>(std::move(model), runtime);
}

namespace {

void expect_request(const TextRequest& asked) {
  if (asked.beams > 1 && asked.choice.temperature > 0) {
    throw UsageError(
        "[generate] beams are not drawn: a temperature has no "
        "effect on them",
        "leave out --beams or --temperature");
  }
  const bool cut = asked.choice.top_k > 0 || asked.choice.top_p < 1;
  if (cut && asked.choice.temperature == 0) {
    throw UsageError(
        "[generate] nothing is drawn without a temperature, so "
        "--top-k and --top-p have no effect",
        "add --temperature 1");
  }
  const bool drawn = asked.choice.temperature > 0;
  if (!drawn && asked.count > asked.beams) {
    throw UsageError(
        fmt::format("[generate] expected a temperature, or as "
                    "many beams, for {} texts that differ",
                    asked.count));
  }
  nn::expect_sound(asked.choice);
}

}  // namespace

std::vector<std::string> SequenceTask::write(torch::nn::Module& module,
                                             const TextRequest& asked,
                                             const RandomStream& stream,
                                             const Runtime& runtime) const {
  expect_request(asked);
  module.eval();
  const PrecisionScope scope(runtime);
  const AttentionScope attention(module, eval_options_.attention);
  auto& model = as_sequence(module);
  const auto known = tokenizer(module);
  auto prompt = known->encode(asked.prompt);
  const bool text = data_options_.is_text();
  const int64_t most = text ? model.shape().target - 1 : model.shape().source;
  if (std::ssize(prompt) > most) {
    throw UsageError(
        fmt::format("[generate] expected a prompt of at most {} tokens, which "
                    "is the model's window, got {}",
                    most, prompt.size()),
        text ? "leave out its beginning" : "");
  }
  if (!text && prompt.empty()) {
    throw UsageError("[generate] this model answers a prompt",
                     "give one with --prompt");
  }
  const auto row = [&](const Tokens& tokens) {
    return torch::tensor(tokens, torch::kInt64)
        .view({1, -1})
        .to(runtime.device);
  };
  Tokens first{data::kStart};
  if (text) first.insert(first.end(), prompt.begin(), prompt.end());
  const auto source = text ? row({}) : row(prompt);
  const int64_t room = model.shape().target - (std::ssize(first) - 1);
  const int64_t length = asked.length > 0 ? asked.length
                         : text           ? 2 * model.shape().target
                                          : room;
  std::vector<std::string> texts;
  if (asked.beams > 1) {
    KnownTokens state(model.begin(source), known->size());
    for (const auto& found :
         beam_search(state, row(first), asked.beams, std::min(length, room))) {
      if (std::ssize(texts) == asked.count) break;
      texts.push_back(known->decode(found.tokens));
    }
  } else {
    for (const auto& tokens : continued(
             model, source.repeat({asked.count, 1}),
             row(first).repeat({asked.count, 1}), known->size(), asked.choice,
             text ? length : std::min(length, room), stream)) {
      texts.push_back(known->decode(tokens));
    }
  }
  if (text) {
    for (auto& one : texts) one.insert(0, asked.prompt);
  }
  return texts;
}

}  // namespace propagator::tasks
