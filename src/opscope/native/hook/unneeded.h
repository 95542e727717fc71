// Outputs that nobody needs: torch collects those of every call while an observer asks for outputs,
// though only calls that are shown have them looked at, which is one of three.
#pragma once

#include <ATen/record_function.h>

namespace opscope {

// Names a member that is private; an explicit instantiation may.
template <auto member>
struct Private {
  friend auto callbacks_of_call() { return member; }
};
auto callbacks_of_call();
template struct Private<&at::RecordFunction::step_callbacks_>;

// Has torch leave out the outputs of a call that has begun, unless another observer listens as well.
inline void leave_out_outputs(const at::RecordFunction& fn) {
  at::StepCallbacks& asked = const_cast<at::RecordFunction&>(fn).*callbacks_of_call();
  if (asked.callbacks_.size() == 1) asked.needs_outputs_ = false;
}

}  // namespace opscope
