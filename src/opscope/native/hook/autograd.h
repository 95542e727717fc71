// The autograd node whose gradients are being computed in this thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <typeinfo>

namespace opscope {

struct GradNode {
  bool there = false;
  bool accumulates = false;               // it adds to the gradient of `leaf`
  uint64_t sequence = 0;                  // its number, otherwise
  const c10::TensorImpl* leaf = nullptr;  // null if that is gone
  std::string name;                       // if asked for
};

// What torch::autograd::AccumulateGrad begins with: the header that declares it takes longer to
// compile than half of the hook. Nothing is read before `leaf_is_there` has seen that it is true.
struct AccumulatesInto : torch::autograd::Node {
  at::Tensor variable;
};

// The leaf that a node adds to, read as bits; only of nodes of the type above.
inline const c10::TensorImpl* leaf_of(const torch::autograd::Node& node) {
  const auto& variable = static_cast<const AccumulatesInto&>(node).variable;
  const c10::TensorImpl* leaf = nullptr;
  static_assert(sizeof variable == sizeof leaf);
  std::memcpy(&leaf, &variable, sizeof leaf);
  return leaf;
}

inline bool accumulates(const torch::autograd::Node& node) {
  return std::strcmp(typeid(node).name(), "N5torch8autograd14AccumulateGradE") == 0;
}

// Whether leaves can be read; found out once, by `learn_leaves`.
inline bool& leaves_are_known() {
  static bool known = false;
  return known;
}

// `object` is torch's object of a node that adds to the gradient of the tensor at `expected`.
inline void learn_leaves(PyObject* object, const c10::TensorImpl* expected) {
  struct NodeObject {  // of Python, for nodes that are made in C++
    PyObject_HEAD
    decltype(torch::autograd::get_current_node()) node;
  };
  const auto& node = reinterpret_cast<NodeObject*>(object)->node;
  leaves_are_known() = node && accumulates(*node) && leaf_of(*node) == expected;
}

inline GradNode current_grad_node(bool with_name = false) {
  GradNode found;
  const auto node = torch::autograd::get_current_node();
  if (!node) return found;
  found.there = true;
  found.sequence = node->sequence_nr();
  if (with_name) found.name = node->name();
  if (found.sequence == ~uint64_t{0}) {
    found.accumulates = true;
    if (leaves_are_known() && accumulates(*node)) {
      const c10::TensorImpl* leaf = leaf_of(*node);
      if (leaf != c10::UndefinedTensorImpl::singleton()) found.leaf = leaf;
    }
  }
  return found;
}

}  // namespace opscope
