#include "propagator/kernels/greens/green_attention.h"

#include <fmt/ranges.h>
#include <torch/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>

#include "propagator/kernels/cuda.h"
#include "propagator/kernels/encoder/causal_attention.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kDeepest = 64;        // of heads that a kernel takes
constexpr int64_t kPlaceMultiple = 16;  // lengths of places are multiples
// In plain operations so many scores are in memory at once.
constexpr int64_t kScoresAtOnce = int64_t{1} << 22;

// (B, 4, length): see GreenPlace.
Tensor places_of(const GreenFunction& green, const Tensor& coordinates,
                 std::optional<double> global_time, const Tensor& hidden,
                 const Tensor& like) {
  const int64_t cases = like.size(0), tokens = like.size(2);
  const int64_t axes = green.coordinates();
  const int64_t space = axes > 0 ? green.dimensions : 0;
  const int64_t length =
      (tokens + kPlaceMultiple - 1) / kPlaceMultiple * kPlaceMultiple;
  auto places = torch::zeros({cases, 4, length}, like.options());
  auto filled = places.narrow(2, 0, tokens);
  const auto axis = [&](int64_t from, int64_t count) {
    return coordinates.narrow(2, from, count).transpose(1, 2);
  };
  if (space > 0) filled.narrow(1, 0, space).copy_(axis(0, space));
  if (green.in_time()) filled.narrow(1, 3, 1).copy_(axis(space, 1));
  if (global_time) {
    places.select(2, 0).zero_();
    places.select(1, 3).select(1, 0).fill_(*global_time);
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (hidden.defined()) {
    filled.masked_fill_(hidden.unsqueeze(1), 0);
    filled.select(1, 3).masked_fill_(hidden, kNone);
  }
  places.select(1, 3).slice(1, tokens).fill_(kNone);
  return places;
}

// Of functions that do not know time there is none.
GreenPlan::Order order_of(const GreenFunction& green, const Tensor& places,
                          int64_t tokens) {
  const auto sorted = [](const Tensor& x) {
    return std::get<1>(
        torch::sort(x, /*stable=*/true, /*dim=*/1, /*descending=*/false));
  };
  if (!green.in_time()) {
    const auto none = torch::empty({0}, torch::kInt64);
    return {none, none};
  }
  const auto order = sorted(places.select(1, 3).narrow(1, 0, tokens));
  return {order, sorted(order)};
}

// Tokens (B, H, T, D) in an order. Of one case rows are taken whole.
Tensor in_order(const Tensor& x, const Tensor& order) {
  if (order.numel() == 0) return x.contiguous();
  if (x.size(0) == 1) return x.index_select(2, order.squeeze(0));
  return x.gather(2, order.unsqueeze(1).unsqueeze(3).expand(x.sizes()));
}
// Places (B, 4, length).
Tensor places_in_order(const Tensor& places, const Tensor& order) {
  if (order.numel() == 0) return places;
  const auto index = order.unsqueeze(1).expand({-1, 4, -1});
  const int64_t tokens = order.size(1);
  return torch::cat(
      {places.narrow(2, 0, tokens).gather(2, index), places.slice(2, tokens)},
      2);
}

GreenForward forward_of(const GreenInputs& in) {
  return in.q.is_cuda() ? green_attention_cuda(in) : green_attention_cpu(in);
}

void store_green(AutogradContext* context, const GreenFunction& g) {
  auto& data = context->saved_data;
  data["kind"] = static_cast<int64_t>(g.kind);
  data["dimensions"] = g.dimensions;
  data["scale"] = static_cast<int64_t>(g.scale);
  data["core"] = g.core;
  data["radius"] = g.radius;
  data["time_core"] = g.time_core;
}

GreenFunction stored_green(AutogradContext* context) {
  auto& data = context->saved_data;
  return {static_cast<GreenKind>(data["kind"].toInt()),
          data["dimensions"].toInt(),
          static_cast<GreenScale>(data["scale"].toInt()),
          data["core"].toDouble(),
          data["radius"].toDouble(),
          data["time_core"].toDouble()};
}

class GreenAttention : public torch::autograd::Function<GreenAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q,
                        const Tensor& k, const Tensor& v,
                        const Tensor& parameters, const GreenFunction& green,
                        const GreenPlan& plan) {
    const auto &by_query = plan.queries.tokens, &by_key = plan.keys.tokens;
    const GreenInputs in{in_order(q, by_query), in_order(k, by_key),
                         in_order(v, by_key),   plan.query_places,
                         plan.key_places,       parameters,
                         green.settings(),      false};
    const auto done = forward_of(in);
    context->save_for_backward({in.q, in.k, in.v, in.query_places,
                                in.key_places, in.parameters, done.out,
                                done.log_sum, by_query, plan.queries.ranks,
                                plan.keys.ranks});
    store_green(context, green);
    return in_order(done.out, plan.queries.ranks);
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const GreenInputs in{saved[0],
                         saved[1],
                         saved[2],
                         saved[3],
                         saved[4],
                         saved[5],
                         stored_green(context).settings(),
                         context->needs_input_grad(3)};
    const GreenForward done{saved[6], saved[7]};
    const auto &by_query = saved[8], &query_ranks = saved[9],
               &key_ranks = saved[10];
    const auto grad = in_order(gradients[0], by_query);
    const auto d = grad.is_cuda()
                       ? green_attention_backward_cuda(grad, in, done)
                       : green_attention_backward_cpu(grad, in, done);
    return {in_order(d.q, query_ranks),
            in_order(d.k, key_ranks),
            in_order(d.v, key_ranks),
            d.parameters,
            Tensor(),
            Tensor()};
  }
};

// --- Without a kernel -------------------------------------------------------

struct Tokens {
  Tensor q, k, v, parameters, queries, keys, hidden;  // hidden may be empty
};

// The queries from `begin` on in plain operations.
Tensor attend_from(const Tokens& in, const GreenTerm& term, int64_t begin) {
  auto part = term;
  part.parameters = in.parameters;
  part.global_query = term.global_query && begin == 0;
  return green_attention_reference(
      in.q, in.k, in.v, part,
      {in.queries, in.keys, in.hidden.numel() > 0 ? in.hidden : Tensor()});
}

// Runs of queries, each against all keys; backward computes each run again.
class QueryRuns : public torch::autograd::Function<QueryRuns> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q,
                        const Tensor& k, const Tensor& v,
                        const Tensor& parameters, const Tensor& queries,
                        const Tensor& keys, const Tensor& hidden,
                        const GreenTerm& term) {
    context->save_for_backward({q, k, v, parameters, queries, keys, hidden});
    const auto& green = term.function;
    auto& data = context->saved_data;
    store_green(context, green);
    data["global_query"] = term.global_query;
    data["global_key"] = term.global_key;
    std::vector<Tensor> parts;
    const int64_t run = run_of(q, k);
    for (int64_t begin = 0; begin < q.size(2); begin += run) {
      parts.push_back(
          attend_from({q.slice(2, begin, begin + run), k, v, parameters,
                       queries.slice(1, begin, begin + run), keys, hidden},
                      term, begin));
    }
    return torch::cat(parts, 2);
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const GreenTerm term{stored_green(context),
                         {},
                         data["global_query"].toBool(),
                         data["global_key"].toBool()};
    const torch::AutoGradMode with_gradients(true);
    const auto leaf = [](const Tensor& x) {
      return x.detach().requires_grad_();
    };
    const auto k = leaf(saved[1]), v = leaf(saved[2]);
    const auto parameters = leaf(saved[3]);
    std::vector<Tensor> dq;
    variable_list d{torch::zeros_like(k), torch::zeros_like(v),
                    torch::zeros_like(parameters)};
    const int64_t run = run_of(saved[0], k);
    for (int64_t begin = 0; begin < saved[0].size(2); begin += run) {
      const auto q = leaf(saved[0].slice(2, begin, begin + run));
      const auto out = attend_from(
          {q, k, v, parameters, saved[4].slice(1, begin, begin + run), saved[5],
           saved[6]},
          term, begin);
      const auto parts = torch::autograd::grad(
          {out}, {k, v, parameters, q},
          {gradients[0].slice(2, begin, begin + run)}, {}, false,
          /*allow_unused=*/true);
      for (size_t n = 0; n < d.size(); ++n) {
        if (parts[n].defined()) d[n] = d[n].detach() + parts[n].detach();
      }
      dq.push_back(parts[3]);
    }
    const Tensor none;
    return {torch::cat(dq, 2), d[0], d[1], d[2], none, none, none, none};
  }

 private:
  static int64_t run_of(const Tensor& q, const Tensor& k) {
    const int64_t across = q.size(0) * q.size(1) * k.size(2);
    return std::max<int64_t>(1, kScoresAtOnce / std::max<int64_t>(1, across));
  }
};

void check_tokens(const Tensor& q, const Tensor& k, const Tensor& v) {
  const bool fits = q.dim() == 4 && k.dim() == 4 && v.sizes() == k.sizes() &&
                    q.size(0) == k.size(0) && q.size(1) == k.size(1) &&
                    q.size(3) == k.size(3) && k.size(2) > 0;
  if (fits) return;
  throw std::invalid_argument(fmt::format(
      "[green_attention] expected q (B, H, Tq, D), k and v (B, H, Tk, D) "
      "with one key or more, got ({}), ({}) and ({})",
      fmt::join(q.sizes(), ", "), fmt::join(k.sizes(), ", "),
      fmt::join(v.sizes(), ", ")));
}

void check_places(const Tensor& x, const Tensor& coordinates, int64_t axes,
                  const char* whose) {
  if (axes == 0) return;
  const bool fits =
      coordinates.defined() && coordinates.dim() == 3 &&
      (coordinates.size(0) == x.size(0) || coordinates.size(0) == 1) &&
      coordinates.size(1) == x.size(2) && coordinates.size(2) >= axes;
  if (fits) return;
  throw std::invalid_argument(fmt::format(
      "[green_attention] expected coordinates of {} ({}, {}, {} or more), got "
      "{}",
      whose, x.size(0), x.size(2), axes,
      coordinates.defined()
          ? fmt::format("({})", fmt::join(coordinates.sizes(), ", "))
          : "none"));
}

void check_hidden(const Tensor& k, const Tensor& hidden) {
  if (!hidden.defined()) return;
  const bool fits = hidden.scalar_type() == torch::kBool && hidden.dim() == 2 &&
                    hidden.size(0) == k.size(0) && hidden.size(1) == k.size(2);
  if (fits) return;
  throw std::invalid_argument(fmt::format(
      "[green_attention] expected hidden keys as ({}, {}) of bool, got ({})",
      k.size(0), k.size(2), fmt::join(hidden.sizes(), ", ")));
}

void check_all_places(const Tensor& q, const Tensor& k, const GreenTerm& term,
                      const GreenTokens& at) {
  term.function.check();
  check_places(q, at.queries, term.function.coordinates(), "queries");
  check_places(k, at.keys, term.function.coordinates(), "keys");
  check_hidden(k, at.hidden);
}

// As many as kernels read; what is not there is 0.
Tensor padded_parameters(const GreenTerm& term, const Tensor& like) {
  const int64_t count = term.function.parameters();
  if (count == 0) return torch::zeros({kGreenParameters}, like.options());
  const int64_t given = term.parameters.defined() ? term.parameters.numel() : 0;
  if (given < count) {
    throw std::invalid_argument(fmt::format(
        "[green_attention] expected {} parameters, got {}", count, given));
  }
  return torch::constant_pad_nd(term.parameters.flatten()
                                    .narrow(0, 0, count)
                                    .to(like.device(), like.dtype()),
                                {0, kGreenParameters - count});
}

}  // namespace

Tensor green_attention_reference(const Tensor& q, const Tensor& k,
                                 const Tensor& v, const GreenTerm& term,
                                 const GreenTokens& at) {
  const auto nowhere = [&](const Tensor& coordinates, const Tensor& x) {
    return coordinates.defined()
               ? coordinates
               : torch::zeros({x.size(0), x.size(2), 0}, x.options());
  };
  const auto logits = green_logits(term, nowhere(at.queries, q),
                                   nowhere(at.keys, k), at.hidden);
  return masked_attention(q, k, v, logits.to(q.scalar_type()));
}

bool has_green_attention(const Tensor& q) {
  const int64_t depth = q.size(3);
  if (depth % 8 != 0 || depth < 8 || depth > kDeepest) return false;
  if (q.is_cuda()) return green_attention_cuda_fits(q);
  return q.is_cpu() && (q.scalar_type() == torch::kFloat32 ||
                        q.scalar_type() == torch::kFloat64);
}

GreenPlan plan_green_attention(const Tensor& q, const Tensor& k,
                               const GreenTerm& term, const GreenTokens& at) {
  check_all_places(q, k, term, at);
  const auto& green = term.function;
  const auto if_global = [](bool global, double time) {
    return global ? std::optional(time) : std::nullopt;
  };
  constexpr double kEnd = std::numeric_limits<double>::infinity();
  const torch::NoGradGuard no_grad;
  const auto queries =
      places_of(green, at.queries, if_global(term.global_query, kEnd), {}, q);
  const auto keys = places_of(green, at.keys, if_global(term.global_key, -kEnd),
                              at.hidden, k);
  const auto by_query = order_of(green, queries, q.size(2));
  const auto by_key = order_of(green, keys, k.size(2));
  return {places_in_order(queries, by_query.tokens),
          places_in_order(keys, by_key.tokens), by_query, by_key};
}

Tensor planned_green_attention(const Tensor& q, const Tensor& k,
                               const Tensor& v, const GreenTerm& term,
                               const GreenPlan& plan) {
  check_tokens(q, k, v);
  return GreenAttention::apply(q, k, v, padded_parameters(term, q),
                               term.function, plan);
}

Tensor green_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                       const GreenTerm& term, const GreenTokens& at) {
  check_tokens(q, k, v);
  if (has_green_attention(q) && q.numel() > 0) {
    return planned_green_attention(q, k, v, term,
                                   plan_green_attention(q, k, term, at));
  }
  check_all_places(q, k, term, at);
  if (q.size(0) * q.size(1) * q.size(2) * k.size(2) <= kScoresAtOnce) {
    return green_attention_reference(q, k, v, term, at);
  }
  // Autograd takes no undefined tensor.
  const auto given = [&](const Tensor& x, at::IntArrayRef otherwise) {
    return x.defined() ? x : torch::zeros(otherwise, q.options());
  };
  return QueryRuns::apply(q, k, v, given(term.parameters, {0}),
                          given(at.queries, {q.size(0), q.size(2), 0}),
                          given(at.keys, {k.size(0), k.size(2), 0}),
                          given(at.hidden, {0}), term);
}

}  // namespace propagator::kernels
