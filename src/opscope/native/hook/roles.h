// Which of the calls that torch tells of are the operators a person would name.
//
// torch tells of every call, nested ones too: what a composite operator is made of, and the same
// operator again at each level of autocast, torch.func or a tensor subclass. Shown is the outermost
// call that computes: wrappers and composites are passed through, and what an operator does inside
// is its own affair.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "call.h"
#include "state.h"

namespace opscope {

enum class Role {
  kShown,
  kPassed,  // look at the calls inside instead
  kHidden,  // nor at those
};

// Levels of torch.func and functionalization: the values are further inside.
constexpr c10::DispatchKeySet kWrapped(
    {c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::BatchedNestedTensor, c10::DispatchKey::FuncTorchGradWrapper,
     c10::DispatchKey::Batched, c10::DispatchKey::Functionalize});
constexpr c10::DispatchKeySet kLevels({c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                                       c10::DispatchKey::FuncTorchDynamicLayerBackMode,
                                       c10::DispatchKey::FuncTorchVmapMode,
                                       c10::DispatchKey::PreDispatch});

// As torch's dispatcher decides which kernel an operator has for a kind of tensor.
inline bool find_composite(const Operator& op, c10::DispatchKey backend) {
  using c10::DispatchKey;
  const auto has = [&op](DispatchKey key) { return op.handle.hasKernelForDispatchKey(key); };
  const bool nested =
      c10::toFunctionalityKey(backend) == DispatchKey::NestedTensor;
  if (!has(DispatchKey::CompositeImplicitAutograd) &&
      !(nested && has(DispatchKey::CompositeImplicitAutogradNestedTensor))) {
    return false;
  }
  const DispatchKey autograd = nested ? DispatchKey::AutogradNestedTensor
                                      : c10::getAutogradKeyFromBackend(c10::toBackendComponent(backend));
  return !has(backend) && !has(autograd) && !has(DispatchKey::CompositeExplicitAutograd) &&
         !has(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

inline bool is_composite(const Operator& op, c10::DispatchKeySet keys) {
  c10::DispatchKey backend = c10::highestPriorityBackendTypeId(keys);
  if (backend == c10::DispatchKey::Undefined) backend = c10::DispatchKey::CPU;
  int8_t& answer = op.composite[static_cast<size_t>(backend)];
  if (answer == 0) answer = find_composite(op, backend) ? 2 : 1;
  return answer == 2;
}

inline c10::DispatchKeySet keys_of(const Operator& op, Arguments arguments) {
  c10::DispatchKeySet keys;
  for (size_t i = 0; i < arguments.size() && i < op.shapes.size(); ++i) {
    if (op.shapes[i] == 0) continue;
    each_tensor(arguments[i], [&keys](const at::Tensor& tensor) { keys = keys | tensor.key_set(); });
  }
  return keys;
}

// Whether a mode or a tensor subclass has its turn first: what it runs is looked at instead.
inline bool goes_to_python(c10::DispatchKeySet keys, c10::DispatchKeySet excluded, bool has_modes) {
  if (excluded.has(c10::DispatchKey::Python)) return false;
  return keys.has(c10::DispatchKey::Python) || has_modes;
}

// Whether nothing is computed here: tensors without memory stand for others while torch compiles.
inline bool only_traces() {
  using c10::impl::TorchDispatchModeKey;
  using c10::impl::TorchDispatchModeTLS;
  return TorchDispatchModeTLS::get_mode(TorchDispatchModeKey::FAKE).has_value() ||
         TorchDispatchModeTLS::get_mode(TorchDispatchModeKey::PROXY).has_value() ||
         TorchDispatchModeTLS::get_mode(TorchDispatchModeKey::FUNCTIONAL).has_value();
}

inline Role role_of(const Operator& op, Arguments arguments) {
  if (op.ignored) return Role::kPassed;
  const bool has_modes = c10::impl::TorchDispatchModeTLS::any_modes_set();
  if (has_modes && only_traces()) return Role::kHidden;
  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  const c10::DispatchKeySet keys = keys_of(op, arguments);
  if ((local.included_ - local.excluded_).has_any(kLevels)) return Role::kPassed;
  if (keys.has_any(kWrapped)) return Role::kPassed;
  if (goes_to_python(keys, local.excluded_, has_modes)) return Role::kPassed;
  if (keys.has_backend(c10::BackendComponent::MetaBit)) return Role::kHidden;
  // `torch.tensor` builds its tensor behind the back of modes and of torch.func.
  if (local.excluded_.has(c10::DispatchKey::Python) &&
      local.excluded_.has(c10::DispatchKey::FuncTorchDynamicLayerBackMode)) {
    return Role::kHidden;
  }
  if ((keys & op.casting).has_any(op.casting - local.excluded_)) return Role::kPassed;
  return is_composite(op, keys) ? Role::kPassed : Role::kShown;
}

}  // namespace opscope
