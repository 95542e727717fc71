// The autograd node whose gradients are being computed in this thread.
//
// A unit of its own: torch's headers for it take half of the time that the hook takes to compile.
#pragma once

#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <string>

namespace opscope {

struct GradNode {
  bool there = false;
  bool accumulates = false;                     // it adds to the gradient of `leaf`
  uint64_t sequence = 0;                        // its number, otherwise
  const c10::TensorImpl* leaf = nullptr;        // null if that is gone
  std::string name;                             // if asked for
};

GradNode current_grad_node(bool with_name = false);

}  // namespace opscope
