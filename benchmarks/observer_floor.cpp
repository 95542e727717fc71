// Observers of torch that do nothing: what any observer of operators costs at least.
#include <ATen/record_function.h>

#define SHOWN extern "C" __attribute__((visibility("default")))

namespace {

at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
int64_t calls = 0;

std::unique_ptr<at::ObserverContext> start(const at::RecordFunction&) {
  ++calls;
  return nullptr;
}

void end(const at::RecordFunction&, at::ObserverContext*) {}

}  // namespace

SHOWN void observe(bool inputs, bool outputs) {
  handle = at::addGlobalCallback(at::RecordFunctionCallback(&start, &end)
                                     .needsInputs(inputs)
                                     .needsOutputs(outputs)
                                     .scopes({at::RecordScope::FUNCTION}));
}

SHOWN void look_away() { at::removeCallback(handle); }

SHOWN int64_t count() { return calls; }
