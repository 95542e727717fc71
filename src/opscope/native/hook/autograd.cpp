#include "autograd.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

namespace opscope {

GradNode current_grad_node(bool with_name) {
  GradNode found;
  const auto node = torch::autograd::get_current_node();
  if (!node) return found;
  found.there = true;
  found.sequence = node->sequence_nr();
  if (with_name) found.name = node->name();
  if (found.sequence == ~uint64_t{0}) {
    found.accumulates = true;
    const auto* accumulate = dynamic_cast<torch::autograd::AccumulateGrad*>(node.get());
    if (accumulate != nullptr && accumulate->variable.defined()) {
      found.leaf = accumulate->variable.unsafeGetTensorImpl();
    }
  }
  return found;
}

}  // namespace opscope
