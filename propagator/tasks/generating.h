#pragma once

#include <functional>

#include "propagator/core/device.h"
#include "propagator/core/random.h"
#include "propagator/nn/token_choice.h"
#include "propagator/tasks/surrogate.h"

namespace propagator::tasks {

// Of a task whose models draw new cases. It works without the task's data.
class Generating {
 public:
  virtual ~Generating() = default;

  // Columns that must be given for each new case; mostly none.
  virtual std::vector<std::string> given_columns() const { return {}; }
  virtual std::vector<std::string> generated_columns() const = 0;

  // `count` new cases, each with a row of `given` (count) where there is any:
  // a column (count) of each name, on the CPU in float64. The same for the same
  // stream.
  virtual NamedTensors generate(torch::nn::Module& model,
                                const NamedTensors& given, int64_t count,
                                const RandomStream& stream,
                                const Runtime& runtime) const = 0;
};

// Of a task whose models draw whole trajectories that begin as given.
class Continuing {
 public:
  virtual ~Continuing() = default;

  // Rows [begin, begin + rows) of an array that is written.
  using TakeRows = std::function<void(const std::string& name, int64_t begin,
                                      const torch::Tensor& rows)>;

  // The first cases of the test as `continue_cases` takes them; the task's data
  // must be prepared.
  virtual NamedTensors given_cases(int64_t count) const = 0;
  // The arrays that `continue_cases` gives, by name, and their shapes.
  // UsageError if what is given is not what the model takes, or if it draws
  // nothing.
  virtual std::map<std::string, std::vector<int64_t>> trajectory_shapes(
      torch::nn::Module& model, const NamedTensors& given,
      int64_t count) const = 0;
  // `count` trajectories of each case, the same for the same stream.
  virtual void continue_cases(torch::nn::Module& model,
                              const NamedTensors& given, int64_t count,
                              const RandomStream& stream,
                              const Runtime& runtime, const TakeRows& take) = 0;
};

// Of a task whose models, trained apart, can be used as one.
class Combining {
 public:
  virtual ~Combining() = default;
  // UsageError if they do not fit together.
  virtual std::shared_ptr<torch::nn::Module> combine(
      const std::vector<std::shared_ptr<torch::nn::Module>>& members) const = 0;
};

// What is asked of a model that writes.
struct TextRequest {
  std::string prompt = "";
  int64_t count = 1;   // texts
  int64_t length = 0;  // tokens of each at most; 0: as the task has it
  nn::TokenChoice choice = {};
  int64_t beams = 1;  // more than one: the best of so many, not drawn
};

// Of a task whose models write text. It works without the task's data.
class Writing {
 public:
  virtual ~Writing() = default;

  // The same for the same stream. UsageError if the prompt has what is no token
  // of the model, or does not fit into its window.
  virtual std::vector<std::string> write(torch::nn::Module& model,
                                         const TextRequest& request,
                                         const RandomStream& stream,
                                         const Runtime& runtime) const = 0;
};

}  // namespace propagator::tasks
