#include "propagator/models/heat_former.h"

#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/nn/linear.h"
#include "propagator/nn/positional_encoding.h"

namespace propagator::models {
namespace {

constexpr double kSmallestScale = 1e-6;
// Of a predicted log variance in units of the output: a deviation of 1e-5, and
// one that is finite whatever the weights.
constexpr double kMinLogVariance = -23;
constexpr double kMaxLogVariance = 40;

}  // namespace

void HeatFormerOptions::describe(config::Schema& s) {
  s.field("mask", mask,
          {.help = "block: all frames at once from the visible ones; causal: "
                   "one frame after the other"});
  s.field("inputs", inputs,
          {.help = "published lets hidden frames in through the residual "
                   "stream (the leak of the heat-plate paper)"});
  s.field("embedding", embedding,
          {.help = "how a frame becomes a token: by the heat-plate paper's "
                   "26*26*256 -> 512, or by the same function collapsed"});
  s.field("predicts", predicts,
          {.help = "what the network gives: the field; its change from the "
                   "last known frame; or that from the last visible one, in "
                   "units of the training cases"});
  s.field("scaling", scaling,
          {.help = "case: shift and scale each case by its last visible frame, "
                   "which the heat equation allows"});
  s.field("visible", visible,
          {.help = "frames that the network is given", .min = 1});
  s.field("width", width,
          {.help = "numbers of a token", .min = 4, .max = 65536});
  s.field("layers", layers,
          {.help = "layers of the encoder", .min = 1, .max = 1000});
  s.field("heads", heads, {.help = "heads of the attention", .min = 1});
  s.field("feed_forward", feed_forward,
          {.help = "width of the encoder's feed-forward layers",
           .min = 1,
           .max = 1e6});
}

void HeatFormerOptions::validate(const FieldShape& shape) const {
  if (width % heads != 0) {
    throw ConfigError(
        "model.heads",
        fmt::format("expected a divisor of model.width = {}, got {}", width,
                    heads));
  }
  if (width % 4 != 0) {
    throw ConfigError("model.width",
                      fmt::format("expected a multiple of 4 (sine and cosine "
                                  "features of x and y), got {}",
                                  width));
  }
  if (visible >= shape.frames) {
    throw ConfigError(
        "model.visible",
        fmt::format("expected fewer than plate.frames = {}, got {}",
                    shape.frames, visible),
        "there must be frames left to predict");
  }
}

std::shared_ptr<Forecaster> HeatFormerOptions::make(
    const FieldShape& shape) const {
  validate(shape);
  return std::make_shared<HeatFormer>(*this, shape);
}

HeatFormer::HeatFormer(const HeatFormerOptions& options,
                       const FieldShape& shape)
    : options_(options),
      shape_(shape),
      embedding_(nn::FrameEmbeddingOptions{shape.rows, shape.cols,
                                           options.width, options.embedding}),
      alpha_embedding_(1, options.width),
      encoder_(nn::EncoderOptions{options.layers, options.width, options.heads,
                                  options.feed_forward}),
      norm_(torch::nn::LayerNormOptions({options.width})),
      output_(options.width, shape.rows * shape.cols) {
  register_module("embedding", embedding_);
  register_module("alpha_embedding", alpha_embedding_);
  register_module("encoder", encoder_);
  register_module("norm", norm_);
  register_module("output", output_);
  if (shape.variance) {
    variance_ = register_module(
        "variance", torch::nn::Linear(options.width, shape.rows * shape.cols));
  }
  time_encoding_ = register_buffer(
      "time_encoding",
      nn::sinusoidal_encoding(shape.frames, options.width, torch::kFloat32));
  if (options.inputs == Inputs::kHonest) {
    unknown_ =
        register_parameter("unknown_frame", torch::zeros({options.width}));
  }
  if (options.predicts == Predicts::kScaledChange) {
    change_scale_ = register_parameter(
        "change_scale", torch::ones({shape.frames, shape.rows, shape.cols}),
        /*requires_grad=*/false);
  }
}

torch::Tensor HeatFormer::Units::scaled(const torch::Tensor& frames) const {
  return scale.defined() ? (frames - shift) / scale : frames;
}

HeatFormer::Units HeatFormer::units_of(const torch::Tensor& frames) const {
  if (options_.scaling == Scaling::kNone) return {};
  const auto last = frames.narrow(1, options_.visible - 1, 1).flatten(1);
  const auto per_case = [](const torch::Tensor& x) {
    return x.view({-1, 1, 1, 1});
  };
  // A plate of one temperature has no deviation and needs none.
  return {per_case(last.mean(1)),
          per_case(last.std(1, /*unbiased=*/false).clamp_min(kSmallestScale))};
}

torch::Tensor HeatFormer::answer(const torch::Tensor& output,
                                 const torch::Tensor& known, const Units& units,
                                 const torch::Tensor& scale) const {
  const bool scaled = units.scale.defined();
  if (options_.predicts == Predicts::kField) {
    return scaled ? units.shift + units.scale * output : output;
  }
  if (options_.predicts == Predicts::kChange) {
    return scaled ? torch::addcmul(known, output, units.scale) : output + known;
  }
  return torch::addcmul(known, output, scaled ? scale * units.scale : scale);
}

void HeatFormer::calibrate(const NextFrames& next) {
  if (options_.predicts != Predicts::kScaledChange) return;
  const torch::NoGradGuard no_grad;
  auto sum = torch::zeros_like(change_scale_, torch::kFloat64);
  int64_t cases = 0;
  for (auto frames = next(); frames.defined(); frames = next()) {
    auto change = frames - known_frames(frames);
    const auto units = units_of(frames);
    if (units.scale.defined()) change = change / units.scale;
    sum += change.to(torch::kFloat64).square().sum(0);
    cases += frames.size(0);
  }
  if (cases > 0) {
    change_scale_.copy_((sum / static_cast<double>(cases)).sqrt());
  }
}

void HeatFormer::drop_alpha() {
  const torch::NoGradGuard no_grad;
  alpha_embedding_->weight.zero_();
}

bool HeatFormer::uses_alpha() const {
  return alpha_embedding_->weight.count_nonzero().item<int64_t>() > 0;
}

nn::AttentionBias HeatFormer::mask() const {
  if (options_.mask == MaskType::kBlock) {
    return nn::AttentionBias::visible_prefix(options_.visible);
  }
  // Honest causal tokens carry the frame before, so one more of them holds
  // nothing but visible frames, and a token may attend to itself.
  const bool honest = options_.inputs == Inputs::kHonest;
  return nn::AttentionBias::causal(options_.visible + (honest ? 1 : 0), honest);
}

int64_t HeatFormer::first_hidden(int64_t output) const {
  const bool causal = options_.mask == MaskType::kCausal;
  return causal ? std::max(output, options_.visible) : options_.visible;
}

// The tokens before time and α are added: (B, T, C).
torch::Tensor HeatFormer::tokens(const torch::Tensor& frames,
                                 const Units& units) {
  if (options_.inputs == Inputs::kPublished) {
    return embedding_(units.scaled(frames));
  }
  const int64_t batch = frames.size(0);
  const auto unknown = [&](int64_t count) {
    return unknown_.expand({batch, count, options_.width});
  };
  if (options_.mask == MaskType::kBlock) {
    const auto visible =
        embedding_(units.scaled(frames.slice(1, 0, options_.visible)));
    return torch::cat(
        {visible,
         unknown(shape_.frames - options_.visible).to(visible.scalar_type())},
        1);
  }
  const auto before =
      embedding_(units.scaled(frames.slice(1, 0, shape_.frames - 1)));
  return torch::cat({unknown(1).to(before.scalar_type()), before}, 1);
}

torch::Tensor HeatFormer::add_context(const torch::Tensor& tokens,
                                      int64_t first,
                                      const torch::Tensor& alpha) {
  const auto time = time_encoding_.narrow(0, first, tokens.size(1));
  return tokens + (time + alpha_embedding_(alpha.unsqueeze(1)).unsqueeze(1));
}

torch::Tensor HeatFormer::known_frames(const torch::Tensor& frames) const {
  if (options_.mask == MaskType::kBlock ||
      options_.predicts == Predicts::kScaledChange) {
    return frames.narrow(1, options_.visible - 1, 1);
  }
  return torch::cat(
      {frames.slice(1, 0, 1), frames.slice(1, 0, shape_.frames - 1)}, 1);
}

torch::Tensor HeatFormer::project(const torch::Tensor& encoded) {
  return nn::apply_linear(output_, nn::apply_norm(norm_, encoded))
      .view({encoded.size(0), encoded.size(1), shape_.rows, shape_.cols});
}

torch::Tensor HeatFormer::deviation(const torch::Tensor& encoded,
                                    const Units& units,
                                    const torch::Tensor& scale) {
  const auto raw =
      nn::apply_linear(variance_, nn::apply_norm(norm_, encoded))
          .view({encoded.size(0), encoded.size(1), shape_.rows, shape_.cols});
  const auto log_variance =
      kMinLogVariance +
      torch::softplus(raw.clamp_max(kMaxLogVariance) - kMinLogVariance);
  auto deviation = (0.5 * log_variance).exp();
  if (scale.defined()) deviation = deviation * scale;
  return units.scale.defined() ? deviation * units.scale : deviation;
}

torch::Tensor HeatFormer::forward(const torch::Tensor& frames,
                                  const torch::Tensor& alpha) {
  const auto units = units_of(frames);
  const auto x = add_context(tokens(frames, units), 0, alpha);
  const auto output = project(encoder_->forward(x, mask(), work_));
  return answer(output, known_frames(frames), units, change_scale_);
}

FrameSpread HeatFormer::spread(const torch::Tensor& frames,
                               const torch::Tensor& alpha) {
  if (!predicts_variance()) return Forecaster::spread(frames, alpha);
  const auto units = units_of(frames);
  const auto x = add_context(tokens(frames, units), 0, alpha);
  const auto encoded = encoder_->forward(x, mask(), work_);
  return {answer(project(encoded), known_frames(frames), units, change_scale_),
          deviation(encoded, units, change_scale_)};
}

void HeatFormer::expect_first_frames(const torch::Tensor& first,
                                     const torch::Tensor& alpha) const {
  if (options_.inputs == Inputs::kPublished) {
    throw UsageError(
        "[heat_former] a model with published inputs needs the whole truth as "
        "its input and cannot forecast",
        "train one with model.inputs=honest");
  }
  const std::vector<int64_t> expected{alpha.size(0), options_.visible,
                                      shape_.rows, shape_.cols};
  if (first.sizes().vec() != expected) {
    throw UsageError(fmt::format(
        "[heat_former] expected the first frames as ({}), got ({})",
        fmt::join(expected, ", "), fmt::join(first.sizes().vec(), ", ")));
  }
}

torch::Tensor HeatFormer::predict(
    const torch::Tensor& first, const torch::Tensor& alpha,
    const std::function<void(int64_t)>& progress) {
  expect_first_frames(first, alpha);
  if (autoregressive()) {
    return roll_out(first, alpha, shape_.frames, {}, progress);
  }
  const auto frames = forward(first, alpha);
  return torch::cat({first, frames.slice(1, options_.visible)}, 1);
}

torch::Tensor HeatFormer::draw(const torch::Tensor& first,
                               const torch::Tensor& alpha,
                               const FrameNoise& noise,
                               const std::function<void(int64_t)>& progress) {
  if (!predicts_variance()) {
    return Forecaster::draw(first, alpha, noise, progress);
  }
  expect_first_frames(first, alpha);
  if (autoregressive()) {
    return roll_out(first, alpha, shape_.frames, noise, progress);
  }
  const torch::NoGradGuard no_grad;
  const auto [mean, deviation] = spread(first, alpha);
  auto frames = torch::empty(mean.sizes(), first.options());
  frames.narrow(1, 0, options_.visible).copy_(first);
  for (int64_t t = options_.visible; t < shape_.frames; ++t) {
    frames.narrow(1, t, 1).copy_(torch::addcmul(
        mean.narrow(1, t, 1), deviation.narrow(1, t, 1), noise(t)));
    if (progress) progress(t + 1);
  }
  return frames;
}

// A block model needs the visible tokens and those of the frames asked for; an
// autoregressive one all frames up to the last of them.
torch::Tensor HeatFormer::predict_at(const torch::Tensor& first,
                                     const torch::Tensor& alpha,
                                     const std::vector<int64_t>& times) {
  expect_first_frames(first, alpha);
  const int64_t visible = options_.visible;
  const auto on_device = [&](const std::vector<int64_t>& list) {
    return torch::tensor(list, torch::kInt64).to(first.device());
  };
  if (autoregressive()) {
    const int64_t count =
        std::max(visible, *std::ranges::max_element(times) + 1);
    return roll_out(first, alpha, count, {}, {})
        .index_select(1, on_device(times));
  }
  auto frames = torch::empty({first.size(0), static_cast<int64_t>(times.size()),
                              shape_.rows, shape_.cols},
                             first.options());
  std::vector<int64_t> hidden, places;
  for (size_t n = 0; n < times.size(); ++n) {
    if (times[n] < visible) {
      frames.select(1, static_cast<int64_t>(n))
          .copy_(first.select(1, times[n]));
    } else {
      hidden.push_back(times[n]);
      places.push_back(static_cast<int64_t>(n));
    }
  }
  if (hidden.empty()) return frames;
  const auto units = units_of(first);
  const auto context = alpha_embedding_(alpha.unsqueeze(1)).unsqueeze(1);
  const auto asked =
      unknown_ + time_encoding_.index_select(0, on_device(hidden)) + context;
  const auto x =
      torch::cat({add_context(embedding_(units.scaled(first)), 0, alpha),
                  asked.to(first.scalar_type())},
                 1);
  const auto output =
      project(encoder_->forward(x, mask(), work_).slice(1, visible));
  const auto scale = change_scale_.defined()
                         ? change_scale_.index_select(0, on_device(hidden))
                         : torch::Tensor();
  const auto found =
      answer(output, first.narrow(1, visible - 1, 1), units, scale);
  return frames.index_copy(1, on_device(places), found.to(frames.dtype()));
}

double HeatFormer::work_of(const std::vector<int64_t>& times) const {
  // Rolling out reads all cached keys and values at each frame, which takes as
  // long again as the products.
  if (autoregressive()) return 2 * Forecaster::work_of(times);
  if (!options_.honest()) return Forecaster::work_of(times);
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const double width = number(options_.width), keys = number(options_.visible);
  const double tokens = keys + number(static_cast<int64_t>(times.size()));
  const double each = 4 * width * number(options_.feed_forward) +
                      4 * width * number(options_.heads) * keys;
  const double nodes = number(shape_.rows * shape_.cols);
  return number(options_.layers) * (tokens * each + 8 * keys * width * width) +
         2 * nodes * width * (tokens + keys);
}

Internals HeatFormer::internals() const {
  const auto visible =
      mask().added(shape_.frames, shape_.frames, torch::kFloat32)[0][0] == 0;
  const auto emphasis =
      output_->weight.detach().abs().mean(1).view({shape_.rows, shape_.cols});
  return {time_encoding_, visible, emphasis};
}

std::vector<std::string> HeatFormer::last_layer() const {
  std::vector<std::string> names{"output"};
  if (predicts_variance()) names.emplace_back("variance");
  return names;
}

torch::Tensor HeatFormer::roll_out(
    const torch::Tensor& first, const torch::Tensor& alpha, int64_t count,
    const FrameNoise& noise, const std::function<void(int64_t)>& progress) {
  const torch::NoGradGuard no_grad;
  const int64_t batch = first.size(0), visible = options_.visible;
  auto frames =
      torch::empty({batch, count, shape_.rows, shape_.cols}, first.options());
  frames.narrow(1, 0, visible).copy_(first);
  const auto units = units_of(first);
  const auto start = unknown_.expand({batch, 1, options_.width});
  auto x = add_context(torch::cat({start, embedding_(units.scaled(first))}, 1),
                       0, alpha);
  auto caches = encoder_->make_caches(batch, count, x.options());
  for (int64_t t = visible; t < count; ++t) {
    const auto encoded = encoder_->step(x, caches);
    const auto last = encoded.narrow(1, encoded.size(1) - 1, 1);
    const auto output = project(last);
    const auto scale = change_scale_.defined() ? change_scale_.narrow(0, t, 1)
                                               : torch::Tensor();
    const auto known =
        frames.narrow(1, change_scale_.defined() ? visible - 1 : t - 1, 1);
    auto frame = answer(output, known, units, scale);
    if (noise) {
      frame = torch::addcmul(frame, deviation(last, units, scale), noise(t));
    }
    frames.narrow(1, t, 1).copy_(frame);
    if (progress) progress(t + 1);
    if (t + 1 < count) {
      x = add_context(embedding_(units.scaled(frames.narrow(1, t, 1))), t + 1,
                      alpha);
    }
  }
  return frames;
}

std::shared_ptr<HeatFormer> HeatFormer::collapse() const {
  const torch::NoGradGuard no_grad;
  auto options = options_;
  options.embedding = nn::EmbeddingForm::kCollapsed;
  auto copy = std::make_shared<HeatFormer>(options, shape_);
  copy->to(output_->weight.scalar_type());
  auto target = copy->named_parameters();
  for (const auto& item : named_parameters()) {
    if (item.key().starts_with("embedding.")) continue;
    target[item.key()].copy_(item.value());
  }
  if (options_.embedding == nn::EmbeddingForm::kPublished) {
    copy->embedding_->collapse_from(*embedding_);
  } else {
    for (const auto& item : embedding_->named_parameters()) {
      target["embedding." + item.key()].copy_(item.value());
    }
  }
  return copy;
}

}  // namespace propagator::models
