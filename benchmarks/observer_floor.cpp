// Observers of torch that do nothing: what any observer of operators costs at least.
#include <ATen/record_function.h>

#include "unneeded.h"

#define SHOWN extern "C" __attribute__((visibility("default")))

namespace {

at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
int64_t calls = 0;
bool outermost = false;  // whether what operators do inside is ignored
thread_local opscope::Insides insides;

std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& fn);
void end(const at::RecordFunction& fn, at::ObserverContext*);
constexpr opscope::Insides::Callbacks kCallbacks{&start, &end};

std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& fn) {
  ++calls;
  if (outermost && opscope::is_of_torch(fn.name())) insides.ignore(fn, kCallbacks);
  return nullptr;
}

void end(const at::RecordFunction& fn, at::ObserverContext*) { insides.leave(fn, kCallbacks); }

}  // namespace

SHOWN void observe(bool inputs, bool outputs, bool outermost_only) {
  outermost = outermost_only;
  handle = at::addGlobalCallback(at::RecordFunctionCallback(&start, &end)
                                     .needsInputs(inputs)
                                     .needsOutputs(outputs)
                                     .scopes({at::RecordScope::FUNCTION}));
}

SHOWN void look_away() { at::removeCallback(handle); }

SHOWN int64_t count() { return calls; }
