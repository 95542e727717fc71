// What torch would do for nobody: it collects the outputs of every call while an observer asks for
// outputs, though only one call in three is shown, and it tells of what operators do inside, which is
// their own affair: two calls in three.
#pragma once

#include <ATen/record_function.h>

#include <cstddef>
#include <cstring>

namespace opscope {

// Names a member that is private, as an explicit instantiation may; `Which` tells members apart.
template <auto member, class Which>
struct Private {
  friend auto member_of(Which*) { return member; }
};
template struct Private<&at::RecordFunction::step_callbacks_, struct OfCallbacks>;
auto member_of(OfCallbacks*);

inline at::StepCallbacks& asked_for(const at::RecordFunction& fn) {
  return const_cast<at::RecordFunction&>(fn).*member_of(static_cast<OfCallbacks*>(nullptr));
}

// Has torch leave out the outputs of a call that has begun, unless another observer listens as well.
inline void leave_out_outputs(const at::RecordFunction& fn) {
  at::StepCallbacks& asked = asked_for(fn);
  if (asked.callbacks_.size() == 1) asked.needs_outputs_ = false;
}

// Whether an operator is torch's own, by its name.
inline bool is_of_torch(const char* name) { return std::strncmp(name, "aten::", 6) == 0; }

// Has torch tell this thread nothing of what one operator does inside.
//
// torch keeps for each thread the callbacks it is to call in the memory behind its RecordFunctionTLS,
// in an array of StepCallbacks. It makes them anew when observers come or go, or the thread's state is
// set, which is why nothing of ours outlasts that. Ours are taken out and put back there, which takes
// two nanoseconds (at::enableRecordFunction, which is for this, takes 130), and only while nobody else
// listens. Where the array is not found as it is known, torch tells of all calls.
class Insides {
 public:
  using Callbacks = at::StepCallbacks::StartEndPair;

  // From the start of a call on. It is to be one of an operator of torch's own: others may be written
  // in Python, and what they run is told of if they raise.
  void ignore(const at::RecordFunction& fn, Callbacks ours) {
    if (of_ != nullptr || asked_for(fn).callbacks_.size() != 1) return;
    if (told_ == nullptr && !find(ours)) return;
    if (told_->callbacks_.size() != 1 || !same(told_->callbacks_[0], ours)) return;
    told_->callbacks_.clear();
    of_ = &fn;
  }

  // At the end of a call: if it is the one above, torch tells of calls again.
  void leave(const at::RecordFunction& fn, Callbacks ours) {
    if (of_ == &fn) heed(ours);
  }

  // Has torch tell of calls again. What it made anew meanwhile is not touched: it has callbacks or, if
  // ours was removed, it needs no inputs.
  void heed(Callbacks ours) {
    if (of_ == nullptr) return;
    of_ = nullptr;
    if (told_->empty() && told_->needs_inputs_) told_->callbacks_.push_back(ours);
  }

 private:
  static bool same(const Callbacks& one, const Callbacks& other) {
    return one.start_ == other.start_ && one.end_ == other.end_;
  }

  bool find(Callbacks ours) {
    constexpr size_t kWithin = 1024;  // bytes: torch's object is several times as large
    if (sought_) return false;
    sought_ = true;
    auto* memory = reinterpret_cast<std::byte*>(
        const_cast<at::RecordFunctionTLS*>(&at::get_record_function_tls_()));
    for (size_t at = 0; at + sizeof *told_ <= kWithin; at += alignof(at::StepCallbacks)) {
      auto* found = reinterpret_cast<at::StepCallbacks*>(memory + at);
      // The vector's elements are in itself, so that its first word says where it is.
      const auto* first = reinterpret_cast<const std::byte*>(found->callbacks_.data());
      if (first < memory + at || first + sizeof ours > memory + at + sizeof *found) continue;
      if (!same(found->callbacks_.data()[0], ours) || found->callbacks_.size() != 1) continue;
      if (found->scope_ != at::RecordScope::FUNCTION || !found->needs_inputs_) continue;
      if (found->thread_id_ != at::RecordFunction::currentThreadId()) continue;
      told_ = found;
      return true;
    }
    return false;
  }

  at::StepCallbacks* told_ = nullptr;          // torch's own, of this thread
  const at::RecordFunction* of_ = nullptr;     // whose insides are ignored just now
  bool sought_ = false;
};

}  // namespace opscope
