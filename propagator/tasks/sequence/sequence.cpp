#include "propagator/tasks/sequence/sequence.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include "propagator/core/error.h"

namespace propagator::tasks {

using data::Split;
using models::as_sequence;
using torch::Tensor;

SequenceTask::SequenceTask(std::unique_ptr<models::SequenceOptions> model)
    : model_options_(std::move(model)) {}

void SequenceTask::describe(config::Schema& s) {
  using enum config::Role;
  s.section("data", data_options_);
  s.field("model.name", model_name_,
          {.help = "name of the model; `propagator list` shows the names",
           .role = kModel});
  s.section("model", *model_options_, kModel);
  s.section("eval", eval_options_, kEvaluation);
}

std::map<std::string, std::string> SequenceTask::defaults() const {
  return {{"train.batch", "64"},       {"train.epochs", "6"},
          {"train.clip", "1"},         {"optimizer.kind", "adam"},
          {"schedule.kind", "cosine"}, {"schedule.lr", "0.001"}};
}

void SequenceTask::validate() {
  data_options_.validate();
  model_options_->validate();
}

std::vector<config::UnusedOption> SequenceTask::unused_options() const {
  std::vector<config::UnusedOption> unused;
  for (const auto& [key, why] : data_options_.unused()) {
    unused.push_back({key, why});
  }
  return unused;
}

std::vector<std::string> SequenceTask::inspect() {
  const auto shape_here = shape();
  const auto source = config::name_of(data_options_.source);
  if (data_options_.is_text()) {
    return {fmt::format("text of {} in windows of {} tokens, {} at most",
                        data_options_.file, shape_here.target,
                        data_options_.text_tokens())};
  }
  return {
      fmt::format("{}: sources of up to {} tokens, targets of up to {}, of "
                  "{} tokens",
                  source, shape_here.source, shape_here.target - 1,
                  shape_here.tokens - data::kFirstOfText)};
}

models::SequenceShape SequenceTask::shape() const {
  const auto& d = data_options_;
  if (d.is_text()) {
    return {.tokens = data::kFirstOfText + d.text_tokens(),
            .source = 0,
            .target = d.window,
            .vocabulary = vocabulary_shape(d)};
  }
  const int64_t tokens = tokenizer_of_pairs(d)->size();
  if (d.is_drawn()) {
    return {
        .tokens = tokens, .source = d.max_length, .target = d.max_length + 1};
  }
  const auto phrases = phrase_pairs(d);
  return {.tokens = tokens,
          .source = phrases.source.size(1),
          .target = phrases.target.size(1)};
}

std::unique_ptr<data::Tokenizer> SequenceTask::tokenizer(
    torch::nn::Module& model) const {
  if (!data_options_.is_text()) return tokenizer_of_pairs(data_options_);
  return tokenizer_of_vocabulary(data_options_,
                                 as_sequence(model).vocabulary());
}

std::shared_ptr<torch::nn::Module> SequenceTask::make_model() const {
  return model_options_->make(shape());
}

void SequenceTask::prepare(int64_t seed, const Runtime& runtime) {
  runtime_ = runtime;
  seed_ = seed;
  pairs_.clear();
  text_.reset();
  text_tokens_.clear();
  const auto& d = data_options_;
  if (d.is_text()) {
    text_ = part_text(read_text(d.file), seed, d.file);
    return;
  }
  const auto keep = [&](Split split, const SequencePairs& found) {
    pairs_[split] = {found.source.to(runtime.device),
                     found.target.to(runtime.device)};
  };
  if (d.source == SequenceSource::kPhrases) {
    for (const auto split : {Split::kTrain, Split::kValidation, Split::kTest}) {
      keep(split, phrase_pairs(d));
    }
    return;
  }
  keep(Split::kTrain, draw_pairs(d, Split::kTrain, d.samples, seed));
  keep(Split::kValidation,
       draw_pairs(d, Split::kValidation, d.validation, seed));
  keep(Split::kTest, draw_pairs(d, Split::kTest, eval_options_.samples, seed));
}

void SequenceTask::calibrate(torch::nn::Module& model) {
  if (!text_) return;
  const torch::NoGradGuard no_grad;
  as_sequence(model).vocabulary().copy_(
      learn_vocabulary(data_options_, *text_));
  text_tokens_.clear();
  encode_text(model);
}

const std::string& SequenceTask::text(Split split) const {
  if (text_ && split == Split::kTrain) return text_->train;
  if (text_ && split == Split::kValidation) return text_->validation;
  if (text_ && split == Split::kTest) return text_->test;
  throw UsageError("[sequence] expected the split train, validation or test");
}

void SequenceTask::encode_text(torch::nn::Module& model) {
  if (!text_ || !text_tokens_.empty()) return;
  const auto known = tokenizer(model);
  const int64_t window = data_options_.window;
  for (const auto split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    data::Tokens tokens;
    try {
      tokens = known->encode(text(split));
    } catch (const UsageError& error) {
      throw DataError(fmt::format("{}: {}", data_options_.file, error.what()),
                      error.hint());
    }
    const int64_t room = std::ssize(tokens) - window;
    if (room < 0 && split != Split::kTest) {
      throw DataError(
          fmt::format("{}: {} tokens to {} are fewer than a window "
                      "of {}",
                      data_options_.file, tokens.size(),
                      split == Split::kTrain ? "train" : "validate", window),
          "choose a smaller data.window, or a longer text");
    }
    const int64_t count = split == Split::kTrain ? data_options_.samples
                                                 : data_options_.validation;
    const auto spread = split == Split::kTrain
                            ? RandomStream(seed_, "data/windows")
                                  .uniform({count}, 0, 1, torch::kFloat64)
                            : torch::arange(count, torch::kFloat64) /
                                  static_cast<double>(count);
    const auto starts =
        (spread * static_cast<double>(std::max<int64_t>(room, 0) + 1))
            .floor()
            .to(torch::kInt64);
    text_tokens_[split] = {torch::tensor(tokens).to(runtime_.device),
                           starts.to(runtime_.device)};
  }
}

SequencePairs SequenceTask::text_windows(Split split) const {
  const auto& tokens = text_tokens_.at(split).tokens;
  const int64_t window = data_options_.window;
  const int64_t count = (tokens.size(0) + window - 1) / window;
  auto target = torch::full({count * window}, data::kPad, tokens.options());
  target.narrow(0, 0, tokens.size(0)).copy_(tokens);
  return {torch::empty({count, 0}, tokens.options()),
          target.view({count, window})};
}

const SequencePairs& SequenceTask::pairs(Split split) const {
  const auto found = pairs_.find(split);
  if (found != pairs_.end()) return found->second;
  throw UsageError("[sequence] expected the split train, validation or test");
}

int64_t SequenceTask::size(Split split) const {
  if (!text_) return pairs(split).source.size(0);
  return split == Split::kTrain ? data_options_.samples
                                : data_options_.validation;
}

SequencePairs SequenceTask::pairs_at(Split split, const Tensor& positions) {
  const auto at = positions.to(runtime_.device);
  if (!text_) {
    const auto& all = pairs(split);
    return {all.source.index_select(0, at), all.target.index_select(0, at)};
  }
  const auto& [tokens, starts] = text_tokens_.at(split);
  const auto places =
      starts.index_select(0, at).unsqueeze(1) +
      torch::arange(data_options_.window, tokens.options()).unsqueeze(0);
  return {torch::empty({at.size(0), 0}, tokens.options()),
          tokens.index_select(0, places.flatten()).view(places.sizes())};
}

void SequenceTask::begin_step(torch::nn::Module& model, int64_t) {
  encode_text(model);
}

TokenLogProbs token_log_probs(models::SequenceModel& model,
                              const SequencePairs& pairs) {
  const auto logits = model.forward(pairs.source, pairs.target);
  const auto values = torch::log_softmax(logits, -1)
                          .gather(-1, pairs.target.unsqueeze(-1))
                          .squeeze(-1);
  const auto counted = pairs.target != data::kPad;
  return {values.masked_fill(counted.logical_not(), 0), counted};
}

train::Loss SequenceTask::loss(torch::nn::Module& model, Split split,
                               const Tensor& positions) {
  encode_text(model);
  const auto [values, counted] =
      token_log_probs(as_sequence(model), pairs_at(split, positions));
  const auto entropy = -values.sum() / counted.sum();
  return {entropy, {{"cross-entropy", 1, entropy.detach()}}};
}

TaskKind sequence_kind() {
  return {
      .help = "given some tokens, which follow?",
      .make =
          [](const config::Document& document) {
            return std::make_unique<SequenceTask>(
                find_kind(models::sequence_models(), document, "model.name",
                          kSequenceModel)
                    .options());
          },
      .models = helps_of(models::sequence_models()),
      .files =
          "INPUT has `source` (cases, tokens) and `target` (cases, tokens), "
          "numbers of tokens,\n0 behind the end of a shorter one; OUTPUT gets "
          "`log_probability` (nats) of each target.\n  propagator predict "
          "runs/copy --input pairs.npz --output chances.npz"};
}

}  // namespace propagator::tasks
