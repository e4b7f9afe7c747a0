#include "propagator/train/tuning.h"

#include <fnmatch.h>
#include <torch/utils.h>

#include "propagator/core/files.h"
#include "propagator/data/safetensors.h"
#include "propagator/nn/tuned_part.h"
#include "propagator/run/base.h"
#include "propagator/run/run.h"
#include "propagator/run/train.h"
#include "propagator/train/flat_parameters.h"
#include "testing.h"

namespace propagator::run {
namespace {

using testing::near;
using testing::random;
using testing::TemporaryFolder;
using testing::thrown;
using torch::Tensor;

const char* const kForecast =
    "task: forecast\nplate: {rows: 6, cols: 6, frames: 8, segment_start: 1, "
    "segment_length: 2}\ndata: {cases: 20}\nmodel: {visible: 3, width: 16, "
    "layers: 2, heads: 2, feed_forward: 8";
const char* const kLocate =
    "task: locate\ndata: {events: 40, validation: 16}\nmodel: {width: 8, "
    "layers: 2, heads: 2, feed_forward: 8, name: ";
const char* const kDensity =
    "task: density\ntarget: {name: lecture}\ndata: {samples: 60, validation: "
    "20}\nmodel: {width: 8, name: ";
const char* const kSolve =
    "task: solve\nproblem:\n  domain: ['x in [0, 1]', 't in [0, 1]']\n"
    "  fields: u\n  equations: ['u_t = 0.1*u_xx']\n  conditions: ['at t=0: u = "
    "sin(pi*x)', 'on x=0: u = 0', 'on x=1: u = 0']\npoints: {per_axis: 5, "
    "validation_per_axis: 3}\nmodel: {name: ";
const char* const kReconstruct =
    "task: reconstruct\nproblem:\n  domain: ['x in [0, 1]', 't in [0, 1]']\n"
    "  fields: u\n  equations: [u_t = 0.1*u_xx]\n  exact: [u = 3 + "
    "exp(-0.1*pi^2*t)*sin(pi*x)]\nsensors: {count: 20}\npoints: {per_axis: 5, "
    "validation_per_axis: 3}\nmodel: {name: ";

struct Case {
  std::string text, last;  // the configuration; a pattern of the last layer
  bool adapters, prefix;   // whether it has a place for them
  std::string also = "";   // of the last layer
};

const std::vector<Case>& every_model() {
  static const std::vector<Case> cases{
      {kForecast + std::string("}\n"), "output.*", true, true},
      {kForecast + std::string(", mask: causal}\n"), "output.*", true, true},
      {kLocate + std::string("event_former, dropout: 0}\n"), "output.*", true,
       true},
      {kLocate + std::string("hit_former}\n"), "output.*", true, true},
      {kDensity + std::string("density_former, heads: 2}\n"), "head.*", true,
       true},
      {kDensity + std::string("made}\n"), "net.out.*", false, false},
      {kDensity + std::string("maf, flows: 2}\n"), "map1.out.*", false, false},
      {kDensity + std::string("spline_flow, flows: 2}\n"), "map1.out.*", false,
       false},
      {kSolve + std::string("kan}\n"), "*layer3.[bcs]*", false, false},
      {kSolve + std::string("pinn, width: 8, layers: 2}\n"), "*layer2.*", false,
       false},
      {kSolve + std::string("pinn-mamba, width: 8}\n"), "*head.linear2.*",
       false, false},
      {kSolve + std::string("pinnsformer}\n"), "*head.linear2.*", true, true},
      {kSolve + std::string("siren, width: 8, layers: 2}\n"), "*out.*", false,
       false},
      {kSolve + std::string("spformer-small}\n"), "*head.linear2.*", true,
       true},
      {kSolve + std::string("spformer-rope, hidden: 8, feed_forward: 8}\n"),
       "*head.linear2.*", true, true},
      {kSolve + std::string("wire, width: 8, layers: 2}\n"), "*out_*", false,
       false},
      {kReconstruct + std::string("deeponet, branch_layers: 1}\n"),
       "*branch1.*", false, false, "network.bias"},
      {kReconstruct + std::string("fno, width: 4, grid: [8, 8], modes: 3}\n"),
       "*out.*", false, false},
      {kReconstruct + std::string("pgt, width: 8, heads: 2}\n"), "*siren.out.*",
       true, true},
  };
  return cases;
}

std::unique_ptr<Experiment> experiment(const std::string& text,
                                       const std::string& more = "") {
  return std::make_unique<Experiment>(
      config::Document::from_text("precision: fp64\n" + text + more, "test"));
}

// A model of an experiment, and the gradients of its loss by what is trained.
struct Subject {
  Subject(const Experiment& e, const Runtime& runtime)
      : task(e.task()), model(e.make_model(runtime)) {
    task.calibrate(*model);
    const torch::NoGradGuard no_grad;
    // Of what begins as zeros, too.
    for (auto& item : model->named_parameters()) {
      auto value = item.value();
      if (!value.requires_grad() || value.numel() == 0) continue;
      value.add_(0.01 * random(value.sizes(), item.key()).to(value.device()));
    }
  }

  train::NamedTensors gradients(train::Tuning* tuning) {
    auto beside = task.learned();
    if (tuning != nullptr) beside.merge(tuning->low_rank().factors());
    train::FlatParameters flat(
        *model, beside, train::FlatParameters::Order::kAsNamed,
        tuning != nullptr ? &tuning->low_rank() : nullptr);
    flat.refresh();
    const auto positions = torch::arange(4);
    flat.add_gradient_of(
        task.loss(*model, data::Split::kTrain, positions).total, 1);
    train::NamedTensors found;
    for (const auto& [name, offset, size] : flat.segments()) {
      found[name] = flat.gradients().narrow(0, offset, size).cpu().clone();
    }
    return found;
  }

  tasks::Task& task;
  std::shared_ptr<torch::nn::Module> model;
};

class RunTuningOfEveryModel : public ::testing::TestWithParam<size_t> {
 protected:
  const Case& subject() const { return every_model()[GetParam()]; }
  static train::TuneOptions options(train::TuneMethod method) {
    train::TuneOptions o;
    o.from = "somewhere";
    o.method = method;
    o.rank = 2;
    o.alpha = 3;
    return o;
  }
};

// No code may rely on every parameter having a gradient.
TEST_P(RunTuningOfEveryModel, FreezingChangesNoOtherGradient) {
  const auto e = experiment(subject().text);
  for (const auto& device : testing::devices()) {
    const Runtime runtime{device, Precision::kFloat64};
    e->task().prepare(0, runtime);
    const auto all = Subject(*e, runtime).gradients(nullptr);
    std::vector<std::string> names;
    for (const auto& [name, value] : all) {
      if (!e->task().learned().contains(name)) names.push_back(name);
    }
    for (const size_t every : {size_t{2}, size_t{3}}) {
      for (size_t first = 0; first < every; ++first) {
        auto o = options(train::TuneMethod::kFull);
        for (size_t n = first; n < names.size(); n += every) {
          o.freeze.push_back(names[n]);
        }
        Subject part(*e, runtime);
        train::Tuning tuning(o, *part.model, 0);
        const auto found = part.gradients(&tuning);
        EXPECT_EQ(found.size(), all.size() - o.freeze.size());
        for (const auto& [name, value] : found) {
          EXPECT_TRUE(near(value, all.at(name), {1e-9, 1e-11}))
              << name << " on " << device;
        }
      }
    }
  }
}

// By the chain rule from the gradient of the whole matrix.
TEST_P(RunTuningOfEveryModel, LowRankFactorsHaveTheirGradients) {
  const auto e = experiment(subject().text);
  for (const auto& device : testing::devices()) {
    const Runtime runtime{device, Precision::kFloat64};
    e->task().prepare(0, runtime);
    Subject tuned(*e, runtime), whole(*e, runtime);
    const auto o = options(train::TuneMethod::kLora);
    train::Tuning tuning(o, *tuned.model, 0);
    for (auto& [name, value] : tuning.low_rank().factors()) {
      if (!name.ends_with(train::kLoraB)) continue;
      value.copy_(0.1 * random(value.sizes(), name));
    }
    const auto found = tuned.gradients(&tuning);
    train::set_parameters(*whole.model, train::copy_parameters(*tuned.model),
                          "test");
    const auto all = whole.gradients(nullptr);
    int64_t changed = 0;
    for (const auto& [name, base] : tuning.low_rank().bases()) {
      const auto g = all.at(name).view({base.size(0), -1});
      const auto factors = tuning.adapter();
      const auto& a = factors.at(name + train::kLoraA);
      const auto& b = factors.at(name + train::kLoraB);
      EXPECT_TRUE(near(found.at(name + train::kLoraA).view(a.sizes()),
                       1.5 * torch::matmul(b.t(), g), {1e-8, 1e-10}))
          << name << " on " << device;
      EXPECT_TRUE(near(found.at(name + train::kLoraB).view(b.sizes()),
                       1.5 * torch::matmul(g, a.t()), {1e-8, 1e-10}))
          << name << " on " << device;
      ++changed;
    }
    EXPECT_GT(changed, 0);
  }
}

TEST_P(RunTuningOfEveryModel, TheLastLayerMakesTheAnswer) {
  const auto e = experiment(subject().text);
  const auto model = e->new_model();
  train::Tuning tuning(options(train::TuneMethod::kLastLayer), *model, 0);
  const auto matches = [&](const std::string& name) {
    const auto fits = [&](const std::string& pattern) {
      return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    };
    return fits(subject().last) || fits(subject().also);
  };
  int64_t expected = 0;
  for (const auto& name : model->named_parameters().keys()) {
    expected += matches(name);
  }
  const auto trained = tuning.adapter();
  EXPECT_EQ(trained.size(), expected);
  for (const auto& [name, value] : trained) EXPECT_TRUE(matches(name)) << name;
}

TEST_P(RunTuningOfEveryModel, AddedPartsHaveAPlaceOrAClearError) {
  for (const auto& [method, fits] : {std::pair{"adapters", subject().adapters},
                                     {"prefix", subject().prefix}}) {
    const auto e = experiment(
        subject().text, fmt::format("tune: {{from: x, method: {}}}\n", method));
    if (!fits) {
      const auto message = thrown<ConfigError>([&] { e->new_model(); });
      EXPECT_NE(message.find("this model has no"), std::string::npos);
      continue;
    }
    const Runtime runtime{torch::kCPU, Precision::kFloat64};
    e->task().prepare(0, runtime);
    const auto plain = experiment(subject().text);
    plain->task().prepare(0, runtime);
    const auto base = plain->make_model(runtime);
    plain->task().calibrate(*base);
    const auto model = e->make_model(runtime);
    e->task().calibrate(*model);
    begin_from({"base", "", train::copy_parameters(*base)}, *e, *model);
    const auto tuning = e->make_tuning(*model);
    for (const auto& [name, value] : tuning->adapter()) {
      EXPECT_TRUE(nn::is_tuned_part(name)) << name;
    }
    // It begins as the base.
    const auto positions = torch::arange(4);
    const auto loss = [&](const Experiment& of, torch::nn::Module& net) {
      return of.task().loss(net, data::Split::kTrain, positions).total.detach();
    };
    EXPECT_TRUE(near(loss(*e, *model), loss(*plain, *base), {1e-9, 1e-12}));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RunTuningOfEveryModel,
                         ::testing::Range(size_t{0}, every_model().size()));

// A small plate model, fine-tuned on plates with another time step.
class RunTuning : public ::testing::Test {
 protected:
  void SetUp() override {
    run::train(*plate("", 6), folder / "base", false, silent);
  }
  static std::unique_ptr<Experiment> plate(const std::string& more,
                                           int64_t steps,
                                           const std::string& model = "") {
    return std::make_unique<Experiment>(config::Document::from_text(
        kForecast + model + "}\ndevice: cpu\nreport: {page: no}\n" +
            fmt::format("train: {{max_steps: {}, batch: 4, checkpoint_every: "
                        "2, validate_every: 2, keep_checkpoints: 9}}\n"
                        "schedule: {{kind: constant, lr: 0.01}}\n",
                        steps) +
            more,
        "test"));
  }
  std::string tune(const std::string& more) const {
    return fmt::format("seed: 3\ntune: {{from: {}{}}}\n",
                       (folder / "base").string(),
                       more.empty() ? "" : ", " + more);
  }
  Trained train(const std::string& name, const std::string& more,
                int64_t steps = 6) {
    return run::train(*plate(tune(more), steps), folder / name, false, silent);
  }
  std::filesystem::path newest(const std::string& name) const {
    return train::list_checkpoints(folder / name / "checkpoints").back();
  }
  std::string adapter(const std::string& name) const {
    return (newest(name) / "adapter.safetensors").string();
  }
  static Tensor answers(const run::Run& run) {
    return run
        .apply({{"fields", random({2, 3, 6, 6}, "fields").abs()},
                {"alpha", torch::full({2}, 0.05)}})
        .at("fields");
  }

  Observer silent;
  TemporaryFolder folder;
};

// Of every method: base and adapter are the tuned run; only what was trained
// has changed; a stopped and resumed run has the same bits.
TEST_F(RunTuning, EveryMethodTrainsItsPartAndLeavesASmallAdapter) {
  const auto base = train::load_weights(newest("base"), train::Weights::kBest);
  const auto before = answers(open(folder / "base"));
  for (const std::string method :
       {"method: full, freeze: ['encoder.*']", "method: last_layer",
        "method: lora, rank: 2, train: ['alpha_embedding.*']",
        "method: adapters, width: 4", "method: prefix, tokens: 3"}) {
    const auto trained = train("tuned", method);
    ASSERT_TRUE(trained.result);
    const auto& said = trained.result->record.at("tuning");
    const auto content = data::load_safetensors(adapter("tuned"));
    int64_t numbers = 0;
    for (const auto& [name, value] : content.tensors) numbers += value.numel();
    EXPECT_EQ(said.at("trained_parameters"), numbers) << method;
    const auto tuned = open(folder / "tuned");
    EXPECT_FALSE(torch::equal(answers(tuned), before)) << method;
    const auto with = open(folder / "base", {.adapter = adapter("tuned")});
    EXPECT_TRUE(near(answers(with), answers(tuned), testing::kFloat32))
        << method;
    for (const auto& [name, value] :
         train::load_weights(newest("tuned"), train::Weights::kBest)) {
      const bool trains = content.tensors.contains(name) ||
                          content.tensors.contains(name + train::kLoraA);
      if (!base.contains(name)) continue;
      EXPECT_EQ(torch::equal(value, base.at(name)), !trains)
          << method << " " << name;
    }
    fs::remove_all(folder / "tuned");
  }
}

TEST_F(RunTuning, AStoppedRunGoesOnToTheSameBits) {
  struct Impatient : Observer {
    bool stop_requested() override { return ++steps == 3; }
    int steps = 0;
  };
  for (const std::string more :
       {"method: full, freeze: ['encoder.layer0.*']", "method: lora, rank: 2",
        "method: adapters", "method: prefix"}) {
    train("whole", more);
    Impatient impatient;
    EXPECT_TRUE(
        run::train(*plate(tune(more), 6), folder / "cut", false, impatient)
            .stopped());
    // Nothing is read from the base any more.
    fs::rename(folder / "base", folder / "away");
    EXPECT_TRUE(resume(folder / "cut", {}, silent).result);
    fs::rename(folder / "away", folder / "base");
    for (const char* file : {"model.safetensors", "best.safetensors",
                             "optimizer.safetensors", "adapter.safetensors"}) {
      EXPECT_EQ(read_file(newest("cut") / file),
                read_file(newest("whole") / file))
          << more << " " << file;
    }
    fs::remove_all(folder / "cut");
    fs::remove_all(folder / "whole");
  }
}

TEST_F(RunTuning, LowRankChangesOfOtherOptimisers) {
  for (const char* kind : {"muon", "lamb", "lbfgs"}) {
    const auto e = plate(tune("method: lora, rank: 2") +
                             fmt::format("optimizer: {{kind: {}}}\n", kind),
                         2);
    run::train(*e, folder / kind, false, silent);
    const auto tuned = open(folder / kind);
    const auto with = open(folder / "base", {.adapter = adapter(kind)});
    EXPECT_TRUE(near(answers(with), answers(tuned), testing::kFloat32)) << kind;
    EXPECT_FALSE(torch::equal(answers(tuned), answers(open(folder / "base"))))
        << kind;
  }
}

TEST_F(RunTuning, ASteppedLossFallsFromTheBaseOn) {
  const auto scratch =
      run::train(*plate("", 1), folder / "scratch", false, silent);
  const auto tuned = train("tuned", "method: lora", 20);
  EXPECT_LT(tuned.result->evaluation.metrics.front().value,
            scratch.result->evaluation.metrics.front().value);
}

TEST_F(RunTuning, AnAdapterOfAnotherModelIsRefused) {
  train("tuned", "method: lora");
  run::train(*plate("seed: 9\n", 6), folder / "other", false, silent);
  const auto message = thrown<DataError>(
      [&] { open(folder / "other", {.adapter = adapter("tuned")}); });
  EXPECT_NE(message.find("is the adapter of another model"), std::string::npos)
      << message;
  const auto whole = (newest("tuned") / "model.safetensors").string();
  EXPECT_NE(thrown<DataError>([&] {
              open(folder / "base", {.adapter = whole});
            }).find("is no adapter"),
            std::string::npos);
}

TEST_F(RunTuning, AnotherModelOrTaskIsRefusedAndNothingIsLeft) {
  const auto refused = [&](std::unique_ptr<Experiment> e) {
    const auto message = thrown<ConfigError>(
        [&] { run::train(*e, folder / "bad", false, silent); });
    EXPECT_FALSE(fs::exists(folder / "bad"));
    return message;
  };
  const auto has = [](const std::string& message, const std::string& text) {
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  has(refused(plate(tune(""), 2, ", predicts: scaled_change")),
      "they lack change_scale");
  has(refused(plate(tune(""), 2, ", embedding: published")),
      "embedding.projection.weight is (16, 36) there and (16, 288) here");
  auto wide = config::Document::from_text(
      kForecast + std::string("}\ndevice: cpu\n") + tune(""), "test");
  wide.override_with("model.feed_forward=16");
  has(refused(std::make_unique<Experiment>(wide)),
      "encoder.layer0.linear1.weight is (8, 16) there and (16, 16) here");
  has(refused(experiment(kLocate + std::string("hit_former}\n"), tune(""))),
      "is of task forecast, and this configuration of task locate");
  has(refused(plate("tune: {from: /nowhere}\n", 2)), "no run or file /nowhere");
  has(refused(plate(tune("freeze: ['decoder.*']"), 2)),
      "test:10:52: tune.freeze");  // the place of the pattern
  train("tuned", "method: lora");
  has(refused(plate("tune: {from: " + adapter("tuned") + "}\n", 2)),
      "is an adapter, not a whole model");
}

TEST_F(RunTuning, BeginsFromAFileAndFromACheckpointToo) {
  const auto file = (newest("base") / "best.safetensors").string();
  const auto by_run = train("by-run", "");
  for (const auto& from : {file, newest("base").string()}) {
    const auto e = plate(fmt::format("seed: 3\ntune: {{from: {}}}\n", from), 6);
    run::train(*e, folder / "other", false, silent);
    EXPECT_EQ(read_file(newest("other") / "model.safetensors"),
              read_file(newest("by-run") / "model.safetensors"));
    fs::remove_all(folder / "other");
  }
}

}  // namespace
}  // namespace propagator::run
