// What torch calls before and after every operator; it leaves dispatch alone.
//
// torch::RecordFunction tells of each call with its inputs and outputs. It swallows what callbacks
// raise, gives the inputs before the call only, and says by outputs that are missing, or by an
// exception under way, that the operator raised.
#pragma once

#include <Python.h>

#include <ATen/record_function.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "recorder_link.h"
#include "roles.h"
#include "schemas.h"
#include "texts.h"
#include "watching.h"

namespace opscope {

struct Named {
  const Operator* op = nullptr;  // null: not found
  uint64_t withdrawals = 0;      // as many as there were when it was learnt
};

inline FlatMap<const c10::FunctionSchema*, std::unique_ptr<Operator>, AddressHash>& operators() {
  using Operators = FlatMap<const c10::FunctionSchema*, std::unique_ptr<Operator>, AddressHash>;
  static auto* all = new Operators();  // never freed: Python may be gone by then
  return *all;
}

// Whether an operator returns just those tensors that it writes to, as those in place do; some write
// to more than their schema says.
inline bool returns_written(const c10::FunctionSchema& schema, Py_ssize_t really_written) {
  std::vector<const c10::AliasInfo*> written;
  for (const c10::Argument& argument : schema.arguments()) {
    const c10::AliasInfo* alias = argument.alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    if (argument.type()->kind() != c10::TypeKind::TensorType) return false;
    written.push_back(alias);
  }
  const auto& returns = schema.returns();
  if (returns.empty() || returns.size() != written.size()) return false;
  if (written.size() != static_cast<size_t>(really_written)) return false;
  for (size_t i = 0; i < returns.size(); ++i) {
    const c10::AliasInfo* alias = returns[i].alias_info();
    if (alias == nullptr || alias->beforeSets() != written[i]->beforeSets()) return false;
  }
  return true;
}

// Asks Python what there is to know of an operator; the interpreter lock is held.
inline const Operator* learn(const c10::OperatorHandle& handle) {
  std::unique_ptr<Operator>& op = operators()[&handle.schema()];
  if (op != nullptr && op->handle.operator_name() == handle.operator_name()) return op.get();
  if (op != nullptr) op.release();  // taken back by torch; calls may still be under way
  op = std::make_unique<Operator>(handle);
  const auto& name = handle.operator_name();
  NotWatched not_watched;
  Ref object = checked(PyObject_CallFunction(hook->new_operator.get(), "ss", name.name.c_str(),
                                             name.overload_name.c_str()));
  if (object.get() == Py_None) return op.get();  // which is ignored
  const auto flag = [&object](const char* attribute) {
    return PyObject_IsTrue(checked(PyObject_GetAttrString(object.get(), attribute)).get()) == 1;
  };
  Ref kind = checked(PyObject_GetAttrString(object.get(), "kind"));
  op->kind = static_cast<Kind>(PyLong_AsLong(kind.get()));
  op->nested = flag("nested");
  op->writes = flag("writes");
  op->view = flag("view");
  op->same_elements = flag("same_elements");
  op->converts = flag("converts");
  op->fills = flag("fills");
  op->asynchronous = flag("asynchronous");
  op->fresh = flag("fresh");
  op->only_python = op->asynchronous || op->fresh || flag("waits");
  const auto& arguments = handle.schema().arguments();
  op->returns = handle.schema().returns().size();
  op->shapes.resize(arguments.size());
  op->mutated.resize(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string type = arguments[i].type()->str();
    if (type.find("Tensor") == std::string::npos) continue;
    op->shapes[i] = type == "Tensor" || type == "Tensor?" ? 1 : 2;
  }
  Ref mutated = checked(PyObject_GetAttrString(object.get(), "mutated"));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mutated.get()); ++i) {
    const long at = PyLong_AsLong(PyTuple_GET_ITEM(PyTuple_GET_ITEM(mutated.get(), i), 0));
    op->mutated.at(static_cast<size_t>(at)) = 1;
  }
  for (const c10::DispatchKey key : c10::autocast_dispatch_keyset) {
    if (handle.hasKernelForDispatchKey(key)) op->casting = op->casting.add(key);
  }
  op->ignored = flag("ignored");
  op->of_torch = is_of_torch(name.name.c_str());
  // What others return may be something else than they say.
  op->returns_written = op->of_torch && returns_written(handle.schema(), PyTuple_GET_SIZE(mutated.get()));
  op->with_autograd = handle.hasKernelForDispatchKey(c10::DispatchKey::Autograd);
  op->object = std::move(object);
  return op.get();
}

inline const Operator* learn(const at::RecordFunction& fn, Named& named) {
  named = Named{nullptr, Withdrawals::count()};
  const auto name = fn.operator_name();
  if (!name.has_value()) return nullptr;
  const auto handle = c10::Dispatcher::singleton().findOp(*name);
  if (!handle.has_value() || !handle->hasSchema()) return nullptr;
  Gil gil;
  try {
    named.op = learn(*handle);
  } catch (const std::exception& error) {
    report(error.what());
  }
  return named.op;
}

struct NamedOperators {
  FlatMap<const c10::FunctionSchema*, Named, AddressHash> by_schema;
};

inline NamedOperators& operators_here(Thread& thread) {
  static thread_local NamedOperators known;
  thread.operators = &known;
  return known;
}

inline const Operator* operator_of(const at::RecordFunction& fn, Thread& thread) {
  const c10::FunctionSchema* schema = schema_of(fn);
  if (schema == nullptr) return nullptr;
  NamedOperators* known = thread.operators;
  if (known == nullptr) known = &operators_here(thread);
  Named& named = known->by_schema[schema];
  const bool holds = named.op != nullptr && named.withdrawals == Withdrawals::count();
  return holds ? named.op : learn(fn, named);
}

// Whether an operator is differentiable is known only when it has run: the first one ends the setup,
// or begins a step after an update by hand.
inline bool may_begin_forward(const Call& call, PyObject* state) {
  const auto phase = hook->phase.number(state);
  if ((phase != kSetup && phase != kAwaitingForward) || call.op->writes) return false;
  if (!c10::GradMode::is_enabled()) return false;
  for (const at::Tensor& tensor : call.tensors) {
    if (tensor.requires_grad()) return true;
  }
  return false;
}

// The state of this thread, made at its first use, with what it has numbered so far.
inline PyObject* enter_thread() {
  PyObject* state = nullptr;
  {
    NotWatched not_watched;
    state = thread_state();
  }
  resume_numbers(state);
  return state;
}

// Whether the code that called torch belongs to compiled code.
inline bool is_compiled(Frame at) {
  Code kind = Code::kOther;
  while (at && (kind = kind_of_code(at.code())) == Code::kOther) at = at.back();
  return kind == Code::kCompiled;
}

// What a node is given is noted at its first call, and again when a number among it is NaN.
inline void note_arguments(const Call& call, Arguments arguments) {
  NotWatched not_watched;
  here().arguments = arguments;
  checked(PyObject_CallOneArg(hook->note_arguments.get(), call.node.get()));
}

// The recorder is to find the line of a call that has no node.
inline void leave_line() {
  if (shares_with_recorder()) recorder().functions->note_line();
}

inline void watch(Call& call, Arguments arguments) {
  PyObject* state = enter_thread();
  Frame frame = Frame::current();
  if (frame && kind_of_code(frame.code()) == Code::kCompiled) return leave_line();
  collect(call, arguments);
  call.hidden = false;
  if (may_begin_forward(call, state)) {
    call.deferred = true;
    call.arguments.assign(arguments.begin(), arguments.end());
    return;
  }
  if (begin(call, state, frame)) {
    ++hook->native_calls;
  } else {
    call.hidden = is_compiled(std::move(frame));
    if (call.hidden) return leave_line();
    call.sources.clear();
    here().arguments = arguments;
    begin_in_python(call);
  }
  if (call.given_nan) note_arguments(call, arguments);
  number_nodes(state, call.node.get());
  tell_recorder(call.node_id);
}

// Python is told of a call that waited for autograd to say whether it is differentiable.
inline void begin_deferred(Call& call, PyObject* state) {
  call.deferred = false;
  here().arguments = all(call.arguments);
  if (static_cast<int64_t>(at::sequence_number::peek()) != hook->last_number.number(state)) {
    NotWatched not_watched;
    checked(PyObject_CallNoArgs(hook->forward_begins.get()));
  }
  begin_in_python(call);
  tell_recorder(call.node_id);
}

// The autograd nodes made so far belong to the call around what comes now.
inline void settle_numbers(Call* outer) {
  if (outer == nullptr || outer->generation != hook->generation) return;
  if (outer->deferred && !outer->hidden) begin_deferred(*outer, thread_state());
  if (outer->node) number_nodes(thread_state(), outer->node.get());
}

inline bool above_autograd() {
  return !c10::impl::tls_local_dispatch_key_set().excluded_.has_any(c10::autograd_dispatch_keyset);
}

// Whether autograd may run something around an operator: it remembers what is differentiable, and
// carries derivatives forward. Where it has no kernel for an operator, that itself runs in its place.
inline bool may_act(const Operator& op, Arguments arguments) {
  if (c10::GradMode::is_enabled() || !op.of_torch || !op.with_autograd) return true;
  bool carries = false;
  for (size_t i = 0; i < arguments.size() && i < op.shapes.size(); ++i) {
    if (op.shapes[i] == 0) continue;
    each_tensor(arguments[i], [&carries](const at::Tensor& tensor) {
      carries = carries || (tensor.unsafeGetTensorImpl()->autograd_meta() != nullptr &&
                            tensor._fw_grad(0).defined());
    });
  }
  return carries;
}

// Whether a call inside another is autograd's doing, around the operator: it copies what an operator
// in place is about to overwrite.
inline bool is_around(const Thread& thread) {
  const Call* outer = thread.call;
  return thread.depth == 1 && outer != nullptr && outer->above && above_autograd();
}

// What is to be done about a call that begins; nothing, or hidden, if it is not shown.
inline std::unique_ptr<Call> begin_call(const at::RecordFunction& fn) {
  Thread& thread = here();
  if (thread.depth != 0 && !is_around(thread)) return nullptr;
  if (thread.muted != 0 || hook == nullptr || !hook->recording) return nullptr;
  PyThreadState* python = PyGILState_GetThisThreadState();
  if (python == nullptr) return nullptr;  // a thread of a library's own
  const Operator* op = operator_of(fn, thread);
  if (op == nullptr) return nullptr;
  const Arguments arguments = last(fn.inputs(), op->shapes.size());
  const Role role = role_of(*op, arguments);
  if (role == Role::kPassed) return nullptr;
  std::unique_ptr<Call> call(new Call);  // `make_unique` would fill its memory with zeros first
  call->op = op;
  call->python = python;
  call->outer = thread.call;
  call->generation = hook->generation;
  ++thread.depth;
  thread.call = call.get();
  if (role == Role::kHidden) {
    leave_line();
    return call;
  }
  call->above = op->writes && above_autograd() && may_act(*op, arguments);
  {
    GilOf gil(python);
    try {
      settle_numbers(call->outer);
      watch(*call, arguments);
      prefetch_next();
    } catch (const std::exception& error) {
      call->jobs.clear();
      call->release();
      call->hidden = true;
      report(error.what());
    }
  }
  run(call->jobs, hook->rows);
  call->jobs.clear();
  return call;
}

inline std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& fn);
inline void end(const at::RecordFunction& fn, at::ObserverContext* context);
constexpr Insides::Callbacks kCallbacks{&start, &end};

inline std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& fn) {
  Thread& thread = here();
  ++thread.told;
  thread.began = shares_with_recorder() ? recorder().functions->started(fn) : 0;
  std::unique_ptr<Call> call = begin_call(fn);
  if (call == nullptr || call->hidden || call->op->returns_written) leave_out_outputs(fn);
  if (call != nullptr && !call->above && call->op->of_torch) {
    thread.insides.ignore(fn, kCallbacks);
  }
  return call;
}

// Everything after a call, with the interpreter lock held.
inline void conclude(Call& call, Arguments results, bool raised) {
  PyObject* state = thread_state();
  if (call.deferred) begin_deferred(call, state);
  number_nodes(state, call.node.get());
  if (call.interrupted) return;
  if (raised) {
    hook->node_raised.set(call.node.get(), Py_True);
    call.facts->raised = true;
  } else if (call.begun) {
    finish_in_python(call, results);
  } else {
    finish(call, results);
  }
}

// Python's current exception, if any, is kept from what we do.
class KeepError {
 public:
  KeepError() { PyErr_Fetch(&type_, &value_, &trace_); }
  ~KeepError() { PyErr_Restore(type_, value_, trace_); }
  KeepError(const KeepError&) = delete;
  KeepError& operator=(const KeepError&) = delete;

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

template <class Function>
inline void with_python(const Call& call, Function function) {
  GilOf gil(call.python);
  KeepError keep;
  try {
    function();
  } catch (const std::exception& error) {
    hook->rows.together = false;
    report(error.what());
  }
}

// In the end a call is no longer the one under way.
class Leaving {
 public:
  explicit Leaving(const Call& call) : call_(call) {}
  ~Leaving() {
    Thread& thread = here();
    --thread.depth;
    thread.call = call_.outer;
  }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

 private:
  const Call& call_;
};

inline void end(const at::RecordFunction& fn, at::ObserverContext* context) {
  if (shares_with_recorder()) recorder().functions->ended(fn);
  if (context == nullptr) return;
  here().insides.leave(fn, kCallbacks);
  Call& call = *static_cast<Call*>(context);
  const Leaving leaving(call);
  if (call.hidden || hook == nullptr || call.generation != hook->generation) return;
  const Arguments results =
      call.op->returns_written ? Arguments() : last(all(fn.outputs()), call.op->returns);
  const bool lacks_results = !call.op->returns_written && results.size() < call.op->returns;
  const bool raised = std::uncaught_exceptions() > call.exceptions || lacks_results;
  PyObject* node = call.node.get();  // which capture keeps
  bool done = false;
  const auto read = [&call] { call.bad.add(run(call.jobs, hook->rows)); };
  const auto tell_if_bad = [&] {
    if (call.bad) raise_alarm(call, node, collect_outputs(call, results), call.bad.nan);
  };
  with_python(call, [&] {
    prefetch_next();
    conclude(call, results, raised);
    call.release();
    done = are_brief(call.jobs);
    if (done) {
      read();
      tell_if_bad();
      call.tensors.clear();  // whoever only Python holds is given back with its lock
    }
    prefetch_parts_of_next();
  });
  if (done) return;
  read();
  if (call.bad) with_python(call, tell_if_bad);
}

// A hook of the user's runs inside an operator: what it calls is to be seen.
inline int enter_python() {
  Thread& thread = here();
  const int depth = thread.depth;
  try {
    if (depth != 0 && hook != nullptr) settle_numbers(thread.call);
  } catch (const std::exception& error) {
    report(error.what());
  }
  thread.depth = 0;
  thread.insides.heed(kCallbacks);
  return depth;
}

inline at::CallbackHandle& observing() {
  static at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  return handle;
}

inline void observe(bool on) {
  Withdrawals::watch();
  at::CallbackHandle& handle = observing();
  if (on == (handle != at::INVALID_CALLBACK_HANDLE)) return;
  if (on) {
    handle = at::addGlobalCallback(at::RecordFunctionCallback(&start, &end)
                                       .scopes({at::RecordScope::FUNCTION})
                                       .needsInputs(true)
                                       .needsOutputs(true));
  } else {
    at::removeCallback(handle);
    handle = at::INVALID_CALLBACK_HANDLE;
  }
}

}  // namespace opscope
