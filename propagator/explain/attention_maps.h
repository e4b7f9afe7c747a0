#pragma once

#include "propagator/report/report.h"
#include "propagator/tasks/explainable.h"

namespace propagator::explain {

// Where each head of each attention layer looks: (layers, H, T, K). A hidden
// key is NaN. A block mask leaves few keys; some hidden ones stand behind them
// so that the mask can be seen.
struct AttentionMaps {
  torch::Tensor weights;              // undefined if the model has no attention
  std::vector<double> queries, keys;  // token numbers of rows and columns
};

// Whether there is any attention in it that is shown: nn::MultiHeadAttention or
// that of nn::SpaceTimeBlock (space_time_attention.h).
bool has_attention(torch::nn::Module& model);

// Of every nn::MultiHeadAttention inside `model` while it works on the
// subject, with at most `most` rows and columns.
AttentionMaps attention_maps(torch::nn::Module& model,
                             const tasks::AuditSubject& subject,
                             int64_t most = 64);

// The figure attention, all heads at a glance, and an explorer.
void draw(const AttentionMaps& maps, report::Report& report);

}  // namespace propagator::explain
