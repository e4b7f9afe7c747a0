#pragma once

#include "propagator/models/sequence.h"
#include "propagator/tasks/drawing.h"
#include "propagator/tasks/generating.h"
#include "propagator/tasks/registry.h"
#include "propagator/tasks/sequence/pairs.h"
#include "propagator/tasks/sequence/text.h"

namespace propagator::tasks {

// The model of sequences unless another is chosen.
inline constexpr const char* kSequenceModel = "encoder_decoder";

// Task `sequence`: given some tokens, which follow? From the heat-plate paper's
// section 2. Letters to copy, reverse or sort, phrases, or a text.
class SequenceTask : public Task, public Drawing, public Writing {
 public:
  explicit SequenceTask(std::unique_ptr<models::SequenceOptions> model);

  void describe(config::Schema& schema) override;
  std::map<std::string, std::string> defaults() const override;
  void validate() override;
  std::vector<config::UnusedOption> unused_options() const override;
  std::vector<std::string> inspect() override;
  std::vector<std::string> metric_names() const override;
  std::shared_ptr<torch::nn::Module> make_model() const override;
  void prepare(int64_t seed, const Runtime& runtime) override;
  // Gives the model the vocabulary of a text.
  void calibrate(torch::nn::Module& model) override;
  bool draws_test() const override { return data_options_.is_drawn(); }
  int64_t size(data::Split split) const override;
  void begin_step(torch::nn::Module& model, int64_t step) override;
  train::Loss loss(torch::nn::Module& model, data::Split split,
                   const torch::Tensor& positions) override;
  bool data_on_device() const override { return true; }
  Evaluation evaluate(torch::nn::Module& model, data::Split split) override;
  std::unique_ptr<Surrogate> surrogate(std::shared_ptr<torch::nn::Module> model,
                                       const Runtime& runtime) const override;
  void draw(torch::nn::Module& model, const Evaluation* evaluation,
            int64_t cases, report::Report& report) override;

  std::vector<std::string> write(torch::nn::Module& model,
                                 const TextRequest& request,
                                 const RandomStream& stream,
                                 const Runtime& runtime) const override;

 private:
  // A text's split in tokens (N), and where its windows begin, (windows).
  struct TextTokensOf {
    torch::Tensor tokens, starts;
  };

  models::SequenceShape shape() const;
  std::unique_ptr<data::Tokenizer> tokenizer(torch::nn::Module& model) const;
  // The pairs of a split; of a text its windows at `positions`.
  SequencePairs pairs_at(data::Split split, const torch::Tensor& positions);
  const SequencePairs& pairs(data::Split split) const;
  // A text in tokens of the model, unless it is so already.
  void encode_text(torch::nn::Module& model);
  const std::string& text(data::Split split) const;
  // Consecutive windows of a split, the last one padded, without a source.
  SequencePairs text_windows(data::Split split) const;

  Evaluation evaluate_pairs(models::SequenceModel& model, data::Split split);
  Evaluation evaluate_text(models::SequenceModel& model, data::Split split);
  // What greedy generation gives for each source.
  std::vector<data::Tokens> answers(models::SequenceModel& model,
                                    const torch::Tensor& sources) const;
  // How the model goes on with text of the test.
  void draw_text(models::SequenceModel& model, report::Report& report);
  void draw_attention(models::SequenceModel& model, const torch::Tensor& source,
                      const torch::Tensor& target, report::Report& report);

  SequenceDataOptions data_options_;
  std::string model_name_ = kSequenceModel;
  std::unique_ptr<models::SequenceOptions> model_options_;
  SequenceEvalOptions eval_options_;

  Runtime runtime_;
  int64_t seed_ = 0;
  std::map<data::Split, SequencePairs> pairs_;
  std::optional<TextParts> text_;
  std::map<data::Split, TextTokensOf> text_tokens_;
};

// The logarithm of the probability of each target token (B, T), 0 where it is
// padding, and which are none (B, T).
struct TokenLogProbs {
  torch::Tensor values, counted;
};
TokenLogProbs token_log_probs(models::SequenceModel& model,
                              const SequencePairs& pairs);

TaskKind sequence_kind();

}  // namespace propagator::tasks
