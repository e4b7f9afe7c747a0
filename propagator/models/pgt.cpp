#include "propagator/models/pgt.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/nn/cross_attention.h"
#include "propagator/nn/linear.h"
#include "propagator/nn/wavelet_mlp.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using torch::Tensor;

constexpr const char* kPlaces = "sensor_places";
constexpr const char* kReadings = "sensor_readings";
constexpr const char* kKnown = "sensor_known";

int64_t space_of(const FieldDomain& domain) {
  return domain.variables() - (domain.time >= 0 ? 1 : 0);
}

// A constant (W) as a jet (M; N, W) like another one.
Jet constant_like(const Tensor& value, const Jet& like) {
  const auto& rows = like.rows();
  auto all = value.expand({rows.size(1), -1}).unsqueeze(0);
  if (!like.is_constant()) {
    const auto still = torch::zeros(
        {rows.size(0) - 1, rows.size(1), value.size(0)}, rows.options());
    all = torch::cat({all, still});
  }
  return Jet(all, like.layout());
}

}  // namespace

void PgtOptions::describe(config::Schema& s) {
  s.field("width", width,
          {.help = "numbers of a token", .min = 1, .max = 4096});
  s.field("heads", heads, {.help = "attention heads", .min = 1, .max = 256});
  s.field("layers", layers,
          {.help = "blocks of the encoder", .min = 1, .max = 100});
  s.field("feed_forward", feed_forward,
          {.help = "width between the two layers of a block",
           .min = 1,
           .max = 65536});
  s.field("decoder", decoder,
          {.help = "what makes fields of a point and what the sensors say"});
  s.field("decoder_width", decoder_width,
          {.help = "width of the decoder's layers", .min = 1, .max = 65536});
  s.field("decoder_layers", decoder_layers,
          {.help = "hidden layers of the decoder", .min = 1, .max = 100});
  s.field("first_w0", first_w0,
          {.help = "frequency of the decoder's first layer of sines, over axes "
                   "on [-1, 1]",
           .min = 1e-3,
           .max = 1e4});
  s.field("hidden_w0", hidden_w0,
          {.help = "frequency of its layers of sines after the first",
           .min = 1e-3,
           .max = 1e4});
  s.section("green", green);
  s.field(
      "learn_green", learn_green,
      {.help = "the rate and velocity of the Green's function are learned"});
}

void PgtOptions::validate(const FieldDomain& domain) const {
  if (width % heads != 0) {
    throw ConfigError(
        "model.heads",
        fmt::format("{} heads do not divide a width of {}", heads, width),
        "choose a width that is a multiple of the heads");
  }
  if (green.kind == kernels::GreenKind::kNone) return;
  if (green.dimensions != space_of(domain)) {
    throw ConfigError(
        "model.green.dimensions",
        fmt::format("expected {}, as the problem has, got {}", space_of(domain),
                    green.dimensions),
        fmt::format("set model.green.dimensions={}, or model.green.kind=none",
                    space_of(domain)));
  }
  const kernels::GreenFunction function{.kind = green.kind};
  if (function.in_time() && domain.time < 0) {
    throw ConfigError("model.green.kind", "the problem has no time",
                      "choose poisson or none");
  }
}

std::shared_ptr<FieldNet> PgtOptions::make(const FieldDomain& domain) const {
  return std::make_shared<Pgt>(*this, domain);
}

PgtBlockImpl::PgtBlockImpl(const PgtBlockOptions& o)
    : norm_(register_module(
          "norm",
          torch::nn::LayerNorm(torch::nn::LayerNormOptions({o.width})))),
      attention_(register_module("attention",
                                 nn::MultiHeadAttention(nn::AttentionOptions{
                                     .width = o.width, .heads = o.heads}))),
      linear1_(register_module("linear1",
                               torch::nn::Linear(o.width, o.feed_forward))),
      linear2_(register_module("linear2",
                               torch::nn::Linear(o.feed_forward, o.width))) {}

Tensor PgtBlockImpl::forward(const Tensor& tokens,
                             const nn::AttentionBias& bias) {
  const auto normed = nn::apply_norm(norm_, tokens);
  const auto out =
      tokens + attention_->forward(normed, bias) +
      nn::apply_linear(linear2_,
                       torch::gelu(nn::apply_linear(linear1_, normed)));
  return adapter_.is_empty() ? out : adapter_->forward(out);
}

void PgtBlockImpl::add_adapter(int64_t width) {
  adapter_ = register_module(nn::kAdapterName,
                             nn::Adapter(linear1_->weight.size(1), width));
}

Pgt::Pgt(const PgtOptions& o, const FieldDomain& domain)
    : options_(o),
      domain_(domain),
      axes_(*this, domain),
      reading_embedding_(
          register_module("reading_embedding",
                          nn::linear_without_bias(domain.fields, o.width))),
      known_embedding_(register_module(
          "known_embedding", nn::linear_without_bias(domain.fields, o.width))),
      place_embedding_(register_module(
          "place_embedding", torch::nn::Linear(domain.variables(), o.width))),
      global_token_(
          register_parameter("global_token", torch::zeros({1, o.width}))),
      norm_(register_module(
          "norm",
          torch::nn::LayerNorm(torch::nn::LayerNormOptions({o.width})))),
      query_in_(register_module(
          "query_in", torch::nn::Linear(domain.variables(), o.width))),
      query_out_(
          register_module("query_out", torch::nn::Linear(o.width, o.width))),
      query_(
          register_module("query", nn::linear_without_bias(o.width, o.width))),
      key_(register_module("key", nn::linear_without_bias(o.width, o.width))),
      value_(
          register_module("value", nn::linear_without_bias(o.width, o.width))),
      output_(register_module("output",
                              nn::linear_without_bias(o.width, o.width))) {
  for (int64_t n = 0; n < o.layers; ++n) {
    blocks_.push_back(register_module(
        fmt::format("block{}", n),
        PgtBlock(PgtBlockOptions{o.width, o.heads, o.feed_forward})));
  }
  make_decoder();
  const auto none = [&](const char* name, int64_t columns) {
    return register_parameter(name, torch::zeros({0, columns}), false);
  };
  places_ = none(kPlaces, domain.variables());
  readings_ = none(kReadings, domain.fields);
  known_ = none(kKnown, domain.fields);
  std::vector<double> numbers{o.green.rate};
  numbers.insert(numbers.end(), o.green.velocity.begin(),
                 o.green.velocity.end());
  green_parameters_ = register_parameter(
      "green_parameters", torch::tensor(numbers, torch::kFloat32),
      o.learn_green);
}

void Pgt::make_decoder() {
  const int64_t inputs =
      domain_.variables() + (has_film() ? 0 : 2 * options_.width);
  for (int64_t n = 0; has_film() && n < options_.decoder_layers; ++n) {
    films_.push_back(register_module(
        fmt::format("film{}", n),
        nn::Film(nn::FilmOptions{.condition = 2 * options_.width,
                                 .features = options_.decoder_width,
                                 .frequency = has_sines()})));
  }
  if (has_sines()) {
    siren_ = register_module(
        "siren", nn::Siren(nn::SirenOptions{.inputs = inputs,
                                            .outputs = domain_.fields,
                                            .width = options_.decoder_width,
                                            .layers = options_.decoder_layers,
                                            .first_w0 = options_.first_w0,
                                            .hidden_w0 = options_.hidden_w0}));
  } else {
    for (int64_t n = 0; n <= options_.decoder_layers; ++n) {
      dense_.push_back(register_module(
          fmt::format("dense{}", n),
          torch::nn::Linear(n == 0 ? inputs : options_.decoder_width,
                            n < options_.decoder_layers ? options_.decoder_width
                                                        : domain_.fields)));
    }
  }
}

bool Pgt::has_film() const {
  return options_.decoder == PgtDecoder::kFilmSiren ||
         options_.decoder == PgtDecoder::kFilmMlp;
}

bool Pgt::has_sines() const {
  return options_.decoder == PgtDecoder::kFilmSiren ||
         options_.decoder == PgtDecoder::kSiren;
}

void Pgt::initialise(int64_t seed) {
  FieldNet::initialise(seed);
  for (auto& film : films_) film->reset();
  if (!siren_.is_empty()) siren_->initialise(seed, "siren");
}

void Pgt::observe(const autodiff::Observations& read) {
  const torch::NoGradGuard no_grad;
  green_.reset();
  plan_.reset();
  const auto known = torch::isfinite(read.readings);
  const auto set = [](Tensor& buffer, const Tensor& value) {
    buffer.resize_(value.sizes());
    buffer.copy_(value);
  };
  set(places_, read.points);
  set(readings_, read.readings.nan_to_num(0));
  set(known_, known.to(read.readings.scalar_type()));
}

void Pgt::take_shapes(const std::map<std::string, Tensor>& tensors,
                      const std::string& prefix) {
  const torch::NoGradGuard no_grad;
  green_.reset();
  plan_.reset();
  for (const auto& [name, buffer] : {std::pair{kPlaces, &places_},
                                     {kReadings, &readings_},
                                     {kKnown, &known_}}) {
    const auto found = tensors.find(prefix + name);
    if (found == tensors.end() || found->second.dim() != 2) continue;
    buffer->resize_({found->second.size(0), buffer->size(1)});
  }
}

nn::AttentionBias Pgt::bias() {
  if (options_.green.kind == kernels::GreenKind::kNone) {
    return nn::AttentionBias::full();
  }
  // Space first, then time; the global token's place is not read.
  std::vector<Tensor> columns;
  for (int64_t v = 0; v < domain_.variables(); ++v) {
    if (v != domain_.time) columns.push_back(places_.select(1, v));
  }
  if (domain_.time >= 0) columns.push_back(places_.select(1, domain_.time));
  const auto at = torch::stack(columns, 1);
  if (!green_) green_ = pde::GreenKernel(options_.green, at).function;
  const kernels::GreenTerm term{
      .function = *green_,
      .parameters = green_parameters_.to(places_.scalar_type())
                        .slice(0, 0, green_->parameters()),
      .global_query = true,
      .global_key = true};
  const auto with_global =
      torch::cat({torch::zeros_like(at.slice(0, 0, 1)), at})
          .slice(1, 0, term.function.coordinates())
          .unsqueeze(0);
  auto bias = nn::AttentionBias::greens(term, {with_global, with_global});
  bias.plan = plan(bias);
  return bias;
}

const std::shared_ptr<const kernels::GreenPlan>& Pgt::plan(
    const nn::AttentionBias& bias) {
  const auto like = global_token_.options().requires_grad(false);
  if (plan_ && plan_->query_places.device() == like.device() &&
      plan_->query_places.scalar_type() == global_token_.scalar_type()) {
    return plan_;
  }
  const auto heads =
      torch::empty({1, 1, bias.at.queries.size(1), 1}, like);  // as shaped
  plan_ = std::make_shared<kernels::GreenPlan>(kernels::plan_green_attention(
      heads, heads, *bias.green, {bias.at.queries, bias.at.keys}));
  return plan_;
}

Pgt::Encoded Pgt::encode() {
  if (places_.size(0) == 0) {
    throw UsageError("[pgt] this network answers from readings, and has none",
                     "it is a model of the task reconstruct");
  }
  const auto type = global_token_.scalar_type();
  const auto places = nn::apply_linear(
      place_embedding_, axes_(Jet::constant(places_)).value().to(type));
  const auto sensors =
      places + nn::apply_linear(reading_embedding_, readings_.to(type)) +
      nn::apply_linear(known_embedding_, known_.to(type));
  auto tokens = torch::cat({global_token_, sensors}).unsqueeze(0);
  const auto with = bias();
  for (auto& block : blocks_) tokens = block->forward(tokens, with);
  tokens = nn::apply_norm(norm_, tokens).squeeze(0);
  const auto of_sensors = tokens.slice(0, 1);
  return {tokens[0], nn::apply_linear(key_, of_sensors),
          nn::apply_linear(value_, of_sensors)};
}

std::shared_ptr<void> Pgt::hold() {
  if (held_) return nullptr;
  held_ = encode();
  return {static_cast<void*>(this), [this](void*) { held_.reset(); }};
}

Jet Pgt::ask(const Jet& phi, const Encoded& tokens) {
  const auto queries = nn::apply_linear(query_, phi);
  if (observer_) {
    observer_(nn::cross_attention_weights(queries.value(), tokens.keys,
                                          options_.heads));
  }
  return nn::apply_linear(
      output_,
      nn::cross_attention(queries, tokens.keys, tokens.values, options_.heads));
}

Pgt::Products Pgt::products() const {
  const auto length = static_cast<double>(places_.size(0));
  const auto width = static_cast<double>(options_.width);
  const auto pairs = (length + 1) * (length + 1);
  // Scores and mixed values: two products of two operations each.
  Products all{
      .tokens = 4 * static_cast<double>(blocks_.size()) * pairs * width,
      .row = 4 * length * width};
  for (const auto& child : named_children()) {
    const bool of_tokens = child.key().ends_with("_embedding") ||
                           child.key().starts_with("block") ||
                           child.key() == "key" || child.key() == "value";
    for (const auto& module : child.value()->modules()) {
      const auto* linear = module->as<torch::nn::Linear>();
      if (linear == nullptr) continue;
      const auto numbers = static_cast<double>(linear->weight.numel());
      (of_tokens ? all.tokens : all.row) +=
          2 * numbers * (of_tokens ? length + 1 : 1);
    }
  }
  return all;
}

Jet Pgt::decode(const Jet& points, const Jet& condition) {
  std::vector<nn::Modulation> by;
  for (auto& film : films_) by.push_back(film->modulation(condition));
  auto x = has_film() ? points : autodiff::cat({points, condition}, -1);
  if (has_sines()) {
    return has_film() ? siren_->forward(x, by) : siren_->forward(x);
  }
  for (size_t n = 0; n < dense_.size(); ++n) {
    x = nn::apply_linear(dense_[n], x);
    if (n + 1 == dense_.size()) break;
    if (has_film()) x = nn::modulate(x, by[n]);
    x = autodiff::tanh(x);
  }
  return x;
}

Jet Pgt::forward(const Jet& windows) {
  // Who watches wants to see the encoder too.
  const auto encoded = held_ && !observer_ ? *held_ : encode();
  const auto& rows = windows.rows();  // (M, N, T, D)
  const auto points = axes_(
      windows.linear([](const Tensor& all) { return all.flatten(1, 2); }));
  const auto phi = nn::apply_linear(
      query_out_, autodiff::tanh(nn::apply_linear(query_in_, points)));
  const auto condition = autodiff::cat(
      {ask(phi, encoded), constant_like(encoded.global, points)}, -1);
  return decode(points, condition).linear([&](const Tensor& fields) {
    return fields.view({rows.size(0), rows.size(1), rows.size(2), -1});
  });
}

}  // namespace propagator::models
