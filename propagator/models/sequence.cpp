#include "propagator/models/sequence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <cmath>

#include "propagator/core/error.h"

namespace propagator::models {

using torch::Tensor;

SequenceModel::SequenceModel(const SequenceShape& shape) : shape_(shape) {
  if (shape.vocabulary.empty()) return;
  vocabulary_ =
      register_parameter("vocabulary", torch::full(shape.vocabulary, -1.0),
                         /*requires_grad=*/false);
}

void SequenceModel::expect(const Tensor& source, const Tensor& target) const {
  const auto fits = [](const Tensor& tokens, int64_t most) {
    return tokens.dim() == 2 && tokens.scalar_type() == torch::kInt64 &&
           tokens.size(1) <= most;
  };
  if (fits(source, shape_.source) && fits(target, shape_.target) &&
      source.size(0) == target.size(0)) {
    return;
  }
  throw UsageError(fmt::format(
      "[sequence] expected whole numbers (B, up to {}) and (B, up to {}), got "
      "({}) and ({})",
      shape_.source, shape_.target, fmt::join(source.sizes().vec(), ", "),
      fmt::join(target.sizes().vec(), ", ")));
}

void SequenceModel::expect_whole(const Tensor& source) const {
  expect(source, source.narrow(source.dim() - 1, 0, 0));
  if (!(source == data::kPad).any().item<bool>()) return;
  throw UsageError(
      "[sequence] expected sources of one length, without padding");
}

Tensor embedded(const Tensor& tokens, const Tensor& embedding,
                const Tensor& places, int64_t first) {
  const auto vectors = torch::embedding(embedding, tokens) *
                       std::sqrt(static_cast<double>(embedding.size(1)));
  return vectors + places.narrow(0, first, tokens.size(1));
}

void select_rows(std::vector<nn::KeyValueCache>& caches, const Tensor& rows) {
  for (auto& cache : caches) {
    cache.keys = cache.keys.index_select(0, rows);
    cache.values = cache.values.index_select(0, rows);
  }
}

void StackOptions::describe(config::Schema& s) {
  s.field("layers", layers,
          {.help = "layers of attention, of encoder and decoder each",
           .min = 1,
           .max = 100});
  s.field("width", width,
          {.help = "numbers of a token", .min = 2, .max = 4096});
  s.field("heads", heads, {.help = "attention heads", .min = 1, .max = 256});
  s.field("feed_forward", feed_forward,
          {.help = "width between the two linear maps of a layer",
           .min = 1,
           .max = 65536});
}

void StackOptions::validate() const {
  if (width % 2 != 0) {
    throw ConfigError("model.width",
                      fmt::format("expected an even number, got {}", width),
                      "places are encoded as sines and cosines");
  }
  if (width % heads == 0) return;
  throw ConfigError(
      "model.heads",
      fmt::format("{} heads do not divide a width of {}", heads, width),
      "choose a width that is a multiple of the heads");
}

}  // namespace propagator::models
