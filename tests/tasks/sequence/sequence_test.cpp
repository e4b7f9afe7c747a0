#include "propagator/tasks/sequence/sequence.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "propagator/core/error.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using data::Split;
using testing::kDouble;
using testing::near;
using testing::thrown;
using torch::Tensor;

run::Experiment sequence_experiment(const std::string& more) {
  return run::Experiment(config::Document::from_text(
      "task: sequence\nprecision: fp64\n"
      "train: {batch: 10, max_steps: 6, checkpoint_every: 1, "
      "keep_checkpoints: 9}\n" +
          more,
      "test"));
}

const char* const kCopyText =
    "data: {source: copy, symbols: 4, max_length: 6, samples: 60, validation: "
    "20}\neval: {samples: 50, batch: 7}\nmodel: {name: decoder_only, layers: "
    "1, "
    "width: 8, heads: 2, feed_forward: 8}\n";

class TasksSequenceText : public ::testing::Test {
 protected:
  std::string text(const std::string& more = "") {
    const auto path = folder_ / "text.md";
    std::ofstream file(path);
    for (int n = 0; n < 200; ++n) {
      file << "line " << n * n << " has words and <b>marks</b>\n";
    }
    file << more;
    return path.string();
  }
  static std::string config(const std::string& file,
                            const std::string& more = "") {
    return "data: {source: text, window: 16, samples: 40, validation: 10, "
           "file: " +
           file + more +
           "}\neval: {batch: 7}\nmodel: {name: decoder_only, layers: 1, width: "
           "8, heads: 2, feed_forward: 8}\n";
  }
  testing::TemporaryFolder folder_;
};

TEST(TasksSequencePairs, AreCopiedReversedAndSorted) {
  SequenceDataOptions options;
  options.max_length = 9;
  for (const auto source : {SequenceSource::kCopy, SequenceSource::kReverse,
                            SequenceSource::kSort}) {
    options.source = source;
    const auto pairs = draw_pairs(options, Split::kTest, 50, 3);
    std::set<int64_t> lengths;
    for (int64_t n = 0; n < 50; ++n) {
      const auto length = (pairs.source[n] != data::kPad).sum().item<int64_t>();
      lengths.insert(length);
      auto expected = pairs.source[n].narrow(0, 0, length);
      if (source == SequenceSource::kReverse) expected = expected.flip(0);
      if (source == SequenceSource::kSort) {
        expected = std::get<0>(expected.sort());
      }
      EXPECT_TRUE(torch::equal(pairs.target[n].narrow(0, 0, length), expected));
      EXPECT_EQ(pairs.target[n][length].item<int64_t>(), data::kEnd);
      EXPECT_EQ((pairs.target[n] != data::kPad).sum().item<int64_t>(),
                length + 1);
    }
    EXPECT_EQ(*lengths.begin(), 1);
    EXPECT_EQ(*lengths.rbegin(), 9);
  }
}

TEST(TasksSequencePairs, NoSplitHasASequenceOfAnother) {
  SequenceDataOptions options;
  options.symbols = 3;
  options.max_length = 5;
  std::map<std::vector<int64_t>, Split> seen;
  for (const auto split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const auto pairs = draw_pairs(options, split, 300, 1);
    for (int64_t n = 0; n < 300; ++n) {
      const auto row = pairs.source[n].contiguous();
      const std::vector<int64_t> key(row.data_ptr<int64_t>(),
                                     row.data_ptr<int64_t>() + row.size(0));
      EXPECT_EQ(seen.emplace(key, split).first->second, split);
    }
  }
  options.symbols = 2;
  options.max_length = 1;
  EXPECT_THROW(draw_pairs(options, Split::kValidation, 1, 1), DataError);
}

TEST(TasksSequence, ItsLossIsTheMeanOfAllTokens) {
  const auto e = sequence_experiment(kCopyText);
  const auto model = testing::prepared_model(e);
  SequenceDataOptions options;
  options.symbols = 4;
  options.max_length = 6;
  const auto all = draw_pairs(options, Split::kTrain, 60, 0);
  const std::vector<int64_t> at{3, 0, 17};
  double nats = 0;
  int64_t count = 0;
  for (const int64_t n : at) {
    const auto length = (all.source[n] != data::kPad).sum().item<int64_t>();
    const auto target = all.target.narrow(0, n, 1).narrow(1, 0, length + 1);
    const auto p = torch::softmax(
        models::as_sequence(*model).forward(
            all.source.narrow(0, n, 1).narrow(1, 0, length), target),
        -1);
    for (int64_t t = 0; t <= length; ++t, ++count) {
      nats -= std::log(p[0][t][target[0][t].item<int64_t>()].item<double>());
    }
  }
  EXPECT_NEAR(e.task()
                  .loss(*model, Split::kTrain, torch::tensor(at))
                  .total.item<double>(),
              nats / static_cast<double>(count), 1e-12);
}

TEST(TasksSequence, ResumesWithTheSameBits) {
  const testing::TemporaryFolder folder;
  const auto whole = testing::trained_to(6, sequence_experiment(kCopyText),
                                         kDouble, folder / "whole", {});
  const auto resumed = testing::trained_to(
      6, sequence_experiment(kCopyText), kDouble, folder / "resumed",
      train::checkpoint_path(folder.path() / "whole/checkpoints", 3));
  for (const auto& [name, value] : whole.model) {
    EXPECT_TRUE(torch::equal(value, resumed.model.at(name))) << name;
  }
}

TEST(TasksSequence, ATestCountsWhatIsExact) {
  const auto e = sequence_experiment(kCopyText);
  const auto model = testing::prepared_model(e);
  const auto found = e.task().evaluate(*model, Split::kTest);
  // An untrained model is right by chance at most.
  EXPECT_GT(found.metrics.front().value, 50);
  EXPECT_EQ(found.metrics.front().name, e.task().metric_names().front());
  EXPECT_EQ(found.numbers.at("sequences").get<int64_t>(), 50);
  EXPECT_GT(found.numbers.at("cross_entropy").get<double>(), 0.5);
  const auto surrogate = e.task().surrogate(model, kDouble);
  const auto answer = surrogate->apply({{"source", torch::full({2, 3}, 3.0)},
                                        {"target", torch::full({2, 4}, 4.0)}});
  EXPECT_EQ(answer.at("log_probability").sizes(), std::vector<int64_t>{2});
  EXPECT_THROW(surrogate->apply({{"source", torch::full({2, 3}, 3.5)},
                                 {"target", torch::full({2, 4}, 4.0)}}),
               UsageError);
  EXPECT_THROW(surrogate->apply({{"source", torch::full({2, 3}, 99.0)},
                                 {"target", torch::full({2, 4}, 4.0)}}),
               UsageError);
  EXPECT_THROW(surrogate->apply({{"source", torch::full({2, 3}, 3.0)}}),
               UsageError);
}

TEST(TasksSequence, LearnsThePapersPhrase) {
  for (const char* name : {"encoder_decoder", "decoder_only"}) {
    const auto e = run::Experiment(config::Document::from_text(
        std::string("task: sequence\ndata: {source: phrases, phrases: [I am -> "
                    "a teacher and you are a student]}\ntrain: {batch: 1, "
                    "max_steps: 60}\nschedule: {lr: 0.01}\nmodel: {layers: 1, "
                    "width: 16, heads: 2, feed_forward: 16, name: ") +
            name + "}\n",
        "test"));
    const Runtime runtime;
    const testing::TemporaryFolder folder;
    e.task().prepare(0, runtime);
    const auto model = e.make_model(runtime);
    train::Trainer trainer(e.task(), model, e.train(), 0, runtime, e.yaml());
    auto directory = train::RunDirectory::create(folder / "run", false, "");
    trainer.run(directory);
    const auto& writing = dynamic_cast<const Writing&>(e.task());
    const auto write = [&](const TextRequest& asked) {
      return writing.write(*model, asked, RandomStream(0, "generate"), runtime);
    };
    const std::string phrase = "a teacher and you are a student";
    EXPECT_EQ(write({.prompt = "I am"}), std::vector<std::string>{phrase});
    EXPECT_EQ(write({.prompt = "I am", .beams = 3}).front(), phrase);
    EXPECT_EQ(write({.prompt = "I am", .length = 2}).front(), "a teacher");
    EXPECT_NE(thrown<UsageError>([&] {
                write({.prompt = "I was"});
              }).find("'was' is no token"),
              std::string::npos);
    EXPECT_NE(thrown<UsageError>([&] {
                write({.prompt = "I am am am"});
              }).find("at most 2 tokens"),
              std::string::npos);
    EXPECT_THROW(write({.prompt = ""}), UsageError);
    EXPECT_THROW(write({.prompt = "I am", .count = 2}), UsageError);
    EXPECT_THROW(write({.prompt = "I am", .choice = {.top_k = 2}}), UsageError);
    EXPECT_THROW(
        write({.prompt = "I am", .choice = {.temperature = 1}, .beams = 2}),
        UsageError);
  }
}

TEST_F(TasksSequenceText, AModelKeepsItsVocabulary) {
  for (const char* tokens : {"", ", tokens: bytepair, vocabulary: 270"}) {
    const auto e = sequence_experiment(config(text(), tokens));
    const auto model = testing::prepared_model(e);
    e.task().calibrate(*model);
    const auto found = e.task().evaluate(*model, Split::kTest);
    EXPECT_EQ(found.metrics.front().name, "bits a character");
    const double bits = found.numbers.at("bits_a_character").get<double>();
    const double nats = found.numbers.at("cross_entropy").get<double>() *
                        found.numbers.at("tokens").get<double>();
    EXPECT_NEAR(
        bits, nats / std::log(2) / found.numbers.at("characters").get<double>(),
        1e-9);
    // Another text, another task: the tokens are still the model's.
    const auto other = sequence_experiment(config(text("marks\n"), tokens));
    const auto& writing = dynamic_cast<const Writing&>(other.task());
    const auto written =
        writing.write(*model, {.prompt = "line 1", .length = 40},
                      RandomStream(0, "generate"), kDouble);
    EXPECT_TRUE(written.front().starts_with("line 1"));
    EXPECT_THROW(writing.write(*model, {.prompt = std::string(99, 'l')},
                               RandomStream(0, "generate"), kDouble),
                 UsageError);
  }
}

// As testing::trained_to, of a model that has taken its vocabulary.
train::Checkpoint calibrated_and_trained(
    const run::Experiment& experiment, const std::filesystem::path& run,
    const std::optional<std::filesystem::path>& from) {
  const auto model = testing::prepared_model(experiment);
  if (!from) experiment.task().calibrate(*model);
  train::Trainer trainer(experiment.task(), model, experiment.train(), 0,
                         kDouble, experiment.yaml());
  if (from) trainer.restore(train::load_checkpoint(*from));
  auto directory = train::RunDirectory::create(run, false, "");
  trainer.run(directory);
  return train::load_checkpoint(train::checkpoint_path(run / "checkpoints", 6));
}

TEST_F(TasksSequenceText, ResumesWithTheSameBits) {
  const auto whole = calibrated_and_trained(sequence_experiment(config(text())),
                                            folder_ / "whole", {});
  const auto resumed = calibrated_and_trained(
      sequence_experiment(config(text())), folder_ / "resumed",
      train::checkpoint_path(folder_ / "whole/checkpoints", 3));
  for (const auto& [name, value] : whole.model) {
    EXPECT_TRUE(torch::equal(value, resumed.model.at(name))) << name;
  }
}

TEST_F(TasksSequenceText, PartsHaveNothingInCommonAndAllOfIt) {
  const auto whole = read_text(text());
  const auto parts = part_text(whole, 4, "text");
  EXPECT_EQ(parts.train.size() + parts.validation.size() + parts.test.size(),
            whole.size());
  EXPECT_GT(parts.train.size(), whole.size() / 2);
  EXPECT_NE(whole.find(parts.test.substr(0, 20)), std::string::npos);
  std::ofstream(folder_ / "a.md") << "first\n";
  EXPECT_EQ(read_text(folder_.path()), "first\n" + whole);
  EXPECT_NE(thrown<DataError>([&] {
              part_text("short\n", 0, "text");
            }).find("6 bytes in lines are too few"),
            std::string::npos);
}

TEST_F(TasksSequenceText, TellsWhatIsWrongWithAText) {
  const auto said = [&](const std::string& file, const std::string& more) {
    return thrown<DataError>([&] {
      const auto e = sequence_experiment(config(file, more));
      const auto model = testing::prepared_model(e);
      e.task().calibrate(*model);
    });
  };
  EXPECT_NE(said(text(), ", vocabulary: 5").find("different characters"),
            std::string::npos);
  EXPECT_NE(said(text("\xff\n"), "").find("not UTF-8"), std::string::npos);
  EXPECT_THROW(sequence_experiment(config((folder_ / "none.txt").string()))
                   .task()
                   .prepare(0, kDouble),
               FileError);
  // A text with a character that the model has not seen.
  const auto e = sequence_experiment(config(text()));
  const auto model = testing::prepared_model(e);
  e.task().calibrate(*model);
  const auto other = sequence_experiment(config(text("§§§§\n")));
  other.task().prepare(0, kDouble);
  EXPECT_NE(thrown<DataError>([&] {
              other.task().evaluate(*model, Split::kTest);
            }).find("'§' is no token"),
            std::string::npos);
}

TEST(TasksSequence, ContradictionsAreRefused) {
  const auto said = [](const std::string& text) {
    return thrown<ConfigError>([&] { sequence_experiment(text); });
  };
  EXPECT_NE(said("data: {source: text}\n").find("no text to learn from"),
            std::string::npos);
  EXPECT_NE(said("data: {source: phrases}\n").find("no phrase"),
            std::string::npos);
  EXPECT_NE(said("data: {source: phrases, phrases: [I am]}\n").find("I am"),
            std::string::npos);
  EXPECT_NE(said("data: {min_length: 9, max_length: 5}\n")
                .find("data.max_length = 5"),
            std::string::npos);
  EXPECT_NE(said("data: {source: text, file: a, tokens: bytepair, vocabulary: "
                 "256}\n")
                .find("256 bytes"),
            std::string::npos);
  EXPECT_NE(said("model: {heads: 3}\n").find("do not divide"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::tasks
