#include "propagator/autodiff/field_rows.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/utils.h>

namespace propagator::autodiff {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Shapes = std::vector<std::vector<int64_t>>;

// Views, part by part, each field by field and row by row.
variable_list cut(const Tensor& rows, const Shapes& parts) {
  variable_list pieces;
  int64_t begin = 0;
  for (const auto& shape : parts) {
    auto part = rows.narrow(1, begin, shape.front());
    begin += shape.front();
    for (size_t d = 1; d < shape.size(); ++d) {
      part = part.narrow(static_cast<int64_t>(d) + 1, 0, shape[d]);
    }
    for (int64_t f = 0; f < rows.size(-1); ++f) {
      for (int64_t m = 0; m < rows.size(0); ++m) {
        pieces.push_back(part[m].select(-1, f));
      }
    }
  }
  return pieces;
}

struct Cut : torch::autograd::Function<Cut> {
  static variable_list forward(AutogradContext* context, const Tensor& rows,
                               const Shapes& parts) {
    context->save_for_backward({rows});
    context->saved_data["parts"] = parts;
    context->set_materialize_grads(false);  // what was not used has none
    return cut(rows, parts);
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const auto all = torch::zeros_like(context->get_saved_variables()[0]);
    const auto pieces = cut(all, context->saved_data["parts"].to<Shapes>());
    for (size_t n = 0; n < pieces.size(); ++n) {
      if (gradients[n].defined()) pieces[n].copy_(gradients[n]);
    }
    return {all, Tensor()};
  }
};

}  // namespace

std::vector<FieldRows> field_rows(const Jet& fields, const Shapes& parts) {
  const auto pieces = Cut::apply(fields.rows(), parts);
  auto piece = pieces.begin();
  std::vector<FieldRows> all(parts.size());
  for (auto& part : all) {
    for (int64_t f = 0; f < fields.rows().size(-1); ++f) {
      part.emplace_back(piece, piece + fields.layout().rows());
      piece += fields.layout().rows();
    }
  }
  return all;
}

}  // namespace propagator::autodiff
