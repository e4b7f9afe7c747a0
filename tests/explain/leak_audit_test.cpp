#include "propagator/explain/leak_audit.h"

#include <torch/autograd.h>

#include "propagator/core/error.h"
#include "propagator/explain/dependence.h"
#include "testing.h"

namespace propagator::explain {
namespace {

using propagator::testing::random;
using torch::Tensor;

constexpr int64_t kTimes = 10, kGiven = 4, kCases = 4;

using Answer = std::function<Tensor(const Tensor& inputs)>;

// Output t is the mean of the visible inputs, and `secret` of all inputs.
tasks::AuditSubject subject_of(const Answer& secret) {
  const auto answer = [secret](const Tensor& x) {
    const auto known = x.slice(1, 0, kGiven).mean(1, /*keepdim=*/true);
    return known.expand_as(x) + secret(x);
  };
  return {.inputs = random({kCases, kTimes, 3, 3}, "inputs"),
          .visible = kGiven,
          .paths = {{"test",
                     [answer](const Tensor& x) -> tasks::NamedTensors {
                       return {{"fields", answer(x)}};
                     }}},
          .forward = answer,
          .first_hidden = [](int64_t) { return kGiven; }};
}

Tensor nothing(const Tensor& x) { return torch::zeros({}, x.options()); }

// What a gradient says of the hidden inputs.
double hidden_gradient(const tasks::AuditSubject& subject) {
  return find_dependence(subject, 0)
      .gradients.slice(1, kGiven)
      .abs()
      .max()
      .item<double>();
}

TEST(ExplainLeakAudit, AnswersFromVisibleInputsKeepTheirBits) {
  const auto audit = audit_leaks(subject_of(nothing), 0);
  EXPECT_EQ(audit.leaks(), 0);
  EXPECT_EQ(audit.outputs(), kCases * kTimes);
  EXPECT_EQ(audit.hidden, kTimes - kGiven);
  EXPECT_EQ(audit.verdict(),
            "0 leaks in 40 outputs (test): with noise or NaN in the 6 hidden "
            "inputs of each of 4 cases every output keeps its bits");
}

TEST(ExplainLeakAudit, ACopyOfTheAnswerIsFoundAtEveryHiddenOutput) {
  const auto audit = audit_leaks(
      subject_of([](const Tensor& x) {
        return torch::cat({x.slice(1, 0, kGiven) * 0, x.slice(1, kGiven)}, 1);
      }),
      0);
  EXPECT_EQ(audit.leaks(), kCases * (kTimes - kGiven));
  EXPECT_EQ(audit.to_json().at("paths")[0].at("leaks"), audit.leaks());
}

struct SecretIdentity : torch::autograd::Function<SecretIdentity> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext*,
      torch::autograd::variable_list upstream) {
    return {torch::zeros_like(upstream[0])};
  }
};

// Ways past a gradient: each leaks, and its gradient is exactly zero.
TEST(ExplainLeakAudit, FindsWhatAGradientDoesNot) {
  const auto last = [](const Tensor& x) { return x.select(1, kTimes - 1); };
  const auto shown = [](const Tensor& x) {
    return x.unsqueeze(1).expand({-1, kTimes, -1, -1});
  };
  const std::map<std::string, Answer> secrets{
      {"detach", [&](const Tensor& x) { return shown(last(x).detach()); }},
      {"integer index",
       [&](const Tensor& x) {
         const auto hottest = last(x).detach().flatten(1).argmax(1);  // (B)
         return x.select(1, 0)
             .flatten(1)
             .gather(1, hottest.unsqueeze(1))
             .view({-1, 1, 1, 1})
             .expand({-1, kTimes, 3, 3});
       }},
      {"saturated softmax",
       [&](const Tensor& x) {
         const auto weights = torch::softmax(1e8 * last(x).flatten(1), 1);
         return (weights * x.select(1, 0).flatten(1))
             .sum(1)
             .view({-1, 1, 1, 1})
             .expand({-1, kTimes, 3, 3});
       }},
      {"custom backward",
       [&](const Tensor& x) { return shown(SecretIdentity::apply(last(x))); }}};
  for (const auto& [name, secret] : secrets) {
    const auto subject = subject_of(secret);
    EXPECT_EQ(hidden_gradient(subject), 0) << name;
    const auto audit = audit_leaks(subject, 0);
    EXPECT_GE(audit.leaks(), kCases * kTimes / 2) << name;
    EXPECT_TRUE(audit.paths[0].repeatable) << name;
  }
}

// Each half of the audit finds what the other cannot.
TEST(ExplainLeakAudit, NoiseAndNanEachFindTheirOwn) {
  const auto first_hidden = [](const Tensor& x) {
    return x.slice(1, kGiven, kGiven + 1);
  };
  const auto nan = audit_leaks(subject_of([&](const Tensor& x) {
                                 return first_hidden(x).isnan().to(x.dtype());
                               }),
                               0);
  EXPECT_EQ(nan.leaks(), kCases / 2 * kTimes);
  // The inputs are within one of zero, and NaN is not above anything.
  const auto noise = audit_leaks(subject_of([&](const Tensor& x) {
                                   return (first_hidden(x) > 1.5).to(x.dtype());
                                 }),
                                 0);
  EXPECT_EQ(noise.leaks(), kCases / 2 * kTimes);
}

TEST(ExplainLeakAudit, EveryPathIsLookedAt) {
  auto subject = subject_of(nothing);
  subject.paths.push_back({"predict", [](const Tensor& x) {
                             return tasks::NamedTensors{
                                 {"fields", x.slice(1, 0, kGiven)},
                                 {"last", x.sum({1, 2, 3})}};
                           }});
  const auto audit = audit_leaks(subject, 0);
  EXPECT_EQ(audit.paths[0].leaks, 0);
  EXPECT_EQ(audit.paths[1].leaks, kCases);
  EXPECT_EQ(audit.paths[1].outputs, kCases * kGiven + kCases);
}

// A refusal tells the caller something about what it was not to look at.
TEST(ExplainLeakAudit, AnErrorBecauseOfHiddenInputsIsALeak) {
  const auto audit = audit_leaks(subject_of([](const Tensor& x) {
                                   if (x.isnan().any().item<bool>()) {
                                     throw NumericalError("not finite");
                                   }
                                   return nothing(x);
                                 }),
                                 0);
  EXPECT_EQ(audit.leaks(), kCases * kTimes);
}

TEST(ExplainLeakAudit, SaysSoIfTheModelDoesNotRepeatItself) {
  const auto calls = std::make_shared<int>(0);
  const auto audit =
      audit_leaks(subject_of([calls](const Tensor& x) {
                    return torch::full({}, ++*calls, x.options());
                  }),
                  0);
  EXPECT_GT(audit.leaks(), 0);
  EXPECT_FALSE(audit.paths[0].repeatable);
  EXPECT_NE(audit.verdict().find("do not give the same bits either"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::explain
