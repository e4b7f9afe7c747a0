#include "propagator/models/sequence.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::models {
namespace {

using data::kEnd;
using data::kPad;
using data::kStart;
using testing::kFloat64;
using testing::near;
using torch::Tensor;

const SequenceShape kShape{.tokens = 9, .source = 5, .target = 6};
const std::vector<std::string> kNames{"decoder_only", "encoder_decoder"};

std::shared_ptr<SequenceModel> small(const std::string& name,
                                     const SequenceShape& shape = kShape) {
  const auto options = sequence_models().at(name).options();
  options->stack = {.layers = 2, .width = 8, .heads = 2, .feed_forward = 12};
  auto model = options->make(shape);
  nn::initialise(*model, 2);
  model->to(torch::kFloat64);
  return model;
}

Tensor tokens(std::vector<std::vector<int64_t>> rows) {
  std::vector<Tensor> all;
  for (const auto& row : rows) all.push_back(torch::tensor(row));
  return torch::stack(all);
}

// Logits step by step, as a generation has them, (B, T, V).
Tensor stepped(SequenceModel& model, const Tensor& source, const Tensor& target,
               int64_t at_once) {
  const auto state = model.begin(source);
  const auto start = torch::full({target.size(0), 1}, kStart, torch::kInt64);
  const auto before =
      torch::cat({start, target.narrow(1, 0, target.size(1) - 1)}, 1);
  std::vector<Tensor> logits{
      state->step(before.narrow(1, 0, at_once)).unsqueeze(1)};
  for (int64_t t = at_once; t < before.size(1); ++t) {
    logits.push_back(state->step(before.narrow(1, t, 1)).unsqueeze(1));
  }
  return torch::cat(logits, 1);
}

TEST(ModelsSequence, CachedStepsGiveTheLogitsOfTeacherForcing) {
  const auto source = tokens({{3, 4, 5, 4}, {8, 7, 3, 3}});
  const auto target = tokens({{5, 4, 3, 3, kEnd}, {3, 8, 8, 6, 5}});
  for (const auto& name : kNames) {
    const auto model = small(name);
    const torch::NoGradGuard no_grad;
    for (const auto& given : {source, source.narrow(1, 0, 0)}) {
      const auto whole = model->forward(given, target);
      EXPECT_EQ(whole.sizes(), (std::vector<int64_t>{2, 5, 9}));
      EXPECT_TRUE(near(stepped(*model, given, target, 1), whole, kFloat64))
          << name;
      EXPECT_TRUE(near(stepped(*model, given, target, 3), whole.narrow(1, 2, 3),
                       kFloat64))
          << name;
    }
  }
}

TEST(ModelsSequence, RowsOfACacheCanBeChosen) {
  const auto source = tokens({{3, 4}, {8, 7}});
  for (const auto& name : kNames) {
    const auto model = small(name);
    const auto state = model->begin(source);
    state->step(tokens({{kStart, 5}, {kStart, 6}}));
    state->select(torch::tensor({1, 1, 0}, torch::kInt64));
    const auto chosen = state->step(tokens({{3}, {4}, {3}}));
    const torch::NoGradGuard no_grad;
    const auto whole =
        model->forward(tokens({{8, 7}, {8, 7}, {3, 4}}),
                       tokens({{6, 3, kEnd}, {6, 4, kEnd}, {5, 3, kEnd}}));
    EXPECT_TRUE(near(chosen, whole.select(1, 2), kFloat64)) << name;
  }
}

// What every logit of the targets owes to the embedding of each token number.
Tensor owed(SequenceModel& model, const std::string& embedding,
            const Tensor& source, const Tensor& target, int64_t row,
            int64_t at) {
  model.zero_grad();
  model.forward(source, target)[row][at].square().sum().backward();
  return model.named_parameters()[embedding].grad().abs().sum(1).clone();
}

TEST(ModelsSequence, NoTokenDependsOnItselfOrALaterOne) {
  // Each target token has a number of its own, so that its embedding is its.
  const auto source = tokens({{3}});
  const auto target = tokens({{4, 5, 6, 7, kEnd}});
  for (const auto& name : kNames) {
    const auto model = small(name);
    const auto embedding =
        name == "decoder_only" ? "embedding" : "target_embedding";
    for (int64_t at = 0; at < 5; ++at) {
      const auto grad = owed(*model, embedding, source, target, 0, at);
      for (int64_t t = 0; t < 4; ++t) {
        const double size = grad[4 + t].item<double>();
        if (t < at) {
          EXPECT_GT(size, 0) << name << " " << at << " " << t;
        } else {
          EXPECT_EQ(size, 0) << name << " " << at << " " << t;
        }
      }
    }
  }
}

TEST(ModelsSequence, PaddingIsNothing) {
  const auto source = tokens({{3, 4, kPad, kPad}, {5, 6, 7, 8}});
  const auto target = tokens({{4, 3, kEnd, kPad, kPad}, {8, 7, 6, 5, kEnd}});
  for (const auto& name : kNames) {
    const auto model = small(name);
    const auto embedding =
        name == "decoder_only" ? "embedding" : "source_embedding";
    for (int64_t at = 0; at < 3; ++at) {
      EXPECT_EQ(
          owed(*model, embedding, source, target, 0, at)[kPad].item<double>(),
          0)
          << name;
    }
    // A sequence beside longer ones has the logits that it has alone.
    const torch::NoGradGuard no_grad;
    const auto alone = model->forward(tokens({{3, 4}}), tokens({{4, 3, kEnd}}));
    const auto beside = model->forward(source, target);
    EXPECT_TRUE(near(beside[0].narrow(0, 0, 3), alone[0], kFloat64)) << name;
  }
}

TEST(ModelsSequence, RefusesWhatDoesNotFit) {
  for (const auto& name : kNames) {
    const auto model = small(name);
    const auto one = tokens({{3}});
    EXPECT_THROW(model->forward(torch::full({1, 6}, 3, torch::kInt64), one),
                 UsageError);
    EXPECT_THROW(model->forward(one, torch::full({1, 7}, 3, torch::kInt64)),
                 UsageError);
    EXPECT_THROW(model->forward(one, torch::ones({1, 2})), UsageError);
    EXPECT_THROW(model->begin(tokens({{3, kPad}})), UsageError);
  }
}

TEST(ModelsSequence, AWidthThatHeadsDoNotDivideIsRefused) {
  StackOptions options;
  options.heads = 5;
  EXPECT_THROW(options.validate(), ConfigError);
  options.heads = 1;
  options.width = 7;
  EXPECT_THROW(options.validate(), ConfigError);
}

}  // namespace
}  // namespace propagator::models
