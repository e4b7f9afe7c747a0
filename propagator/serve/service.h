#pragma once

#include "propagator/serve/access.h"
#include "propagator/serve/batcher.h"
#include "propagator/serve/problem_check.h"

namespace propagator::serve {

// The Open Inference Protocol, version 2, of some models: which request means
// what.
class Service : public Handler {
 public:
  using Models = std::vector<std::shared_ptr<const ServedModel>>;
  struct Options {
    AccessOptions access = {};
    Batcher::Options batcher = {};
    int64_t answer_bytes = int64_t{1} << 30;  // of one answer
  };
  // UsageError as of Access, and if two models have one name.
  Service(Models models, const Options& options);

  void admit(const RequestHead& head) const override;
  void answer(Request request, Reply reply) override;

  const Access& access() const { return access_; }
  Metrics& metrics() { return metrics_; }

 private:
  // What a path asks for.
  enum class Subject {
    kPage,
    kCheck,
    kServer,
    kLive,
    kReady,
    kMetrics,
    kModels,
    kModel,
    kModelReady,
    kInfer
  };
  struct Route {
    Subject subject;
    std::shared_ptr<const ServedModel> model;  // of the last three
  };
  Route route_of(const RequestHead& head) const;
  Route route_of_model(const std::vector<std::string_view>& parts) const;
  Response describe(const Route& route) const;
  nlohmann::json model_names() const;
  void infer(const std::shared_ptr<const ServedModel>& model,
             const Request& request, const Reply& reply);

  const Models models_;
  const int64_t answer_bytes_;
  Access access_;
  Metrics metrics_;
  Batcher batcher_;
  ProblemCheck problem_check_;
};

}  // namespace propagator::serve
