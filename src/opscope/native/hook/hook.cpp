// Capture without Python frames: does for known call sites what EagerMode.__torch_dispatch__ does.
//
// Operators reach us by a dispatch key of our own (`by_key`). Where that cannot be, they do as a mode
// (`dispatch`): torch calls modes through one virtual function of its interpreter object, which is
// ours while the hook is installed. If the operator, its call site and its inputs are of the common
// kind, everything is done here, on the same Python objects as in Python; otherwise the call goes on
// to the mode's Python code, before anything has been changed. So capture/eager.py remains the one
// description of what capture does.
#include <Python.h>

#include <ATen/SequenceNumber.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <frameobject.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <ctime>
#include <cstring>
#include <deque>
#include <memory>

#include "flat_map.h"
#include "known.h"
#include "python_objects.h"
#include "rows.h"

c10::impl::PyInterpreter* getPyInterpreter();

namespace opscope {
namespace {

using c10::impl::TorchDispatchModeTLS;
using Arguments = std::vector<c10::IValue>;

// As in capture/thread_state.py and capture/operators.py.
enum Phase { kSetup, kForward, kBackward, kOptimizer, kEval, kTail };
enum Kind { kNew, kSeveral, kView, kWrite, kNothing, kGeneral };
enum Want { kInputStats = 1, kOutputStats = 2, kInputValues = 4, kOutputValues = 8,
            kOutsideStats = 16, kParameters = 32 };
constexpr int kValues = kInputValues | kOutputValues | kParameters;
constexpr int kArguments = 64;
constexpr size_t kMany = 16;  // as in capture/eager.py
constexpr int64_t kKeptNumbers = int64_t{1} << 16;
constexpr uint64_t kAccumulate = ~uint64_t{0};
constexpr size_t kCodesRemembered = size_t{1} << 17, kSitesRemembered = size_t{1} << 18;

// ---------------------------------------------------------------------------------- what is known

struct Operator {
  Ref object;
  Kind kind;
  bool ignored, nested, writes, view, same_elements, only_python;
  std::vector<uint8_t> shapes;  // per argument: 0 no tensor, 1 a tensor, 2 tensors in a list
  std::vector<uint8_t> mutated;
  // An argument that is written to only if another is given; below 0: none.
  int spared = -1, grad_scale = -1;
};

struct SiteKey {
  const void* op;
  const void* scope;
  const void* code;
  const void* user;
  const void* subject;
  int phase, lasti, user_lasti, caller_lasti;
  bool operator==(const SiteKey& other) const {
    return op == other.op && scope == other.scope && code == other.code && user == other.user &&
           subject == other.subject && phase == other.phase && lasti == other.lasti &&
           user_lasti == other.user_lasti && caller_lasti == other.caller_lasti;
  }
};

struct SiteHash {
  size_t operator()(const SiteKey& key) const {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    const auto mix = [&hash](uint64_t value) {
      hash ^= value;
      hash *= 0xff51afd7ed558ccdu;
      hash ^= hash >> 32;
    };
    mix(reinterpret_cast<uint64_t>(key.op));
    mix(reinterpret_cast<uint64_t>(key.scope));
    mix(reinterpret_cast<uint64_t>(key.code));
    mix(reinterpret_cast<uint64_t>(key.user));
    mix(reinterpret_cast<uint64_t>(key.subject));
    mix(static_cast<uint64_t>(key.lasti) << 32 | static_cast<uint32_t>(key.user_lasti));
    mix(static_cast<uint64_t>(key.caller_lasti) << 32 | static_cast<uint32_t>(key.phase));
    return hash;
  }
};

struct FoundSite {
  PyObject* site = nullptr;  // kept alive by `sites`
  Ref subject;     // its address is part of the key
};

struct Hook {
  std::shared_ptr<c10::impl::PyObject_TorchDispatchMode> as_mode;
  Ref mode, local, sites, late, by_id, engine_code, user_file, outside, plan_for,
      add_outputs, begin_call, end_call, before_write, become_mode, report;
  Ref known_object, order, changed;
  Ref alarm;  // told of outputs with NaN or Inf; None if nobody minds
  bool alarmed = false;
  KnownMap* known = nullptr;  // in `known_object`
  Slot admitted, home, scope, phase, depth, backward_depth, pending_view, previous, last_number,
      number_base, node_of_number;
  Slot site_calls, site_first, site_more, site_step;
  Slot node_id, node_outputs, node_sources, node_raised, node_plan;
  Slot output_node, output_slot, output_subject, output_uninitialised;
  Slot plan_flags, plan_revision;
  PyTypeObject* output_type = nullptr;
  PyObject* mode_pointer = nullptr;  // the same as `mode`, readable without the interpreter lock
  long reserved = 0;
  uint64_t generation = 0;  // of captures: what threads remember of another is void
  bool recording = false, many = false;
  long revision = -1, step = -1;
  FlatMap<const c10::FunctionSchema*, std::unique_ptr<Operator>, AddressHash> operators;
  FlatMap<SiteKey, FoundSite, SiteHash> found_sites;
  FlatMap<PyObject*, bool, AddressHash> user_codes;
  std::vector<Ref> codes;  // kept alive: their addresses are keys
  RowBook rows;
  int64_t native_calls = 0, python_calls = 0;
};

Hook* hook = nullptr;

struct {
  const c10::impl::PyInterpreterVTable* original = nullptr;
  void** functions[1];
  void* table[128];
  bool installed = false;
} interpreter;

using DispatchFunction = void (*)(const void*, const c10::OperatorHandle&, Arguments*);
using DetachFunction = c10::intrusive_ptr<c10::TensorImpl> (*)(const void*, const c10::TensorImpl*);
DispatchFunction python_dispatch = nullptr;
DetachFunction python_detach = nullptr;

// Our place among the dispatch keys: directly above the operators themselves, below autograd and
// below Python's modes. torch has the key for a purpose that it does not serve yet.
constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;
constexpr bool kBelowModes = static_cast<uint8_t>(kKey) < static_cast<uint8_t>(c10::DispatchKey::Python);
const c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER, kKey);
const c10::DispatchKeySet kAbove =
    c10::DispatchKeySet(c10::DispatchKeySet::FULL) - kBelow - c10::DispatchKeySet(kKey);

// Takes our mode off the stack while the operator itself runs.
class WithoutMode {
 public:
  WithoutMode() : mode_(TorchDispatchModeTLS::pop_stack()) {}
  ~WithoutMode() { TorchDispatchModeTLS::push_non_infra_mode_onto_stack(mode_); }
  WithoutMode(const WithoutMode&) = delete;
  WithoutMode& operator=(const WithoutMode&) = delete;

 private:
  std::shared_ptr<c10::impl::PyObject_TorchDispatchMode> mode_;
};

// Tensor code inside reaches no dispatch mode.
class Quiet {
 public:
  Quiet()
      : modes_(c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PreDispatch})),
        snapshot_(c10::DispatchKey::PythonTLSSnapshot) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard modes_, snapshot_;
};

bool mode_is_on_top() {
  const int64_t length = TorchDispatchModeTLS::stack_len();
  return length > 0 && hook != nullptr &&
         TorchDispatchModeTLS::get_stack_at(length - 1)->ptr(getPyInterpreter()) ==
             hook->mode_pointer;
}

constexpr size_t kNan = 80, kPosinf = 88, kNeginf = 96;  // in a record, as stats/record.py has it

uint64_t count_at(const char* record, size_t offset) {
  uint64_t count = 0;
  std::memcpy(&count, record + offset, sizeof count);
  return count;
}

int64_t now_us() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{1000000} * now.tv_sec + now.tv_nsec / 1000;
}

// ---------------------------------------------------------------------------------------- sources

Ref key_of(const c10::TensorImpl* tensor) {
  return checked(PyLong_FromVoidPtr(const_cast<c10::TensorImpl*>(tensor)));
}

KnownMap& known() { return *hook->known; }

PyObject* source_of(const at::Tensor& tensor) {  // borrowed
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (PyObject* source = known().get(impl)) return source;
  if (PyObject* source = known().put_twin(impl)) return source;
  Quiet quiet;
  Ref object = checked(THPVariable_Wrap(tensor));
  checked(PyObject_CallOneArg(hook->outside.get(), object.get()));
  PyObject* source = known().get(impl);
  if (source == nullptr) throw std::runtime_error("a tensor from outside was not noted");
  return source;
}

bool is_output(PyObject* source) { return Py_IS_TYPE(source, hook->output_type); }

PyObject* subject_of(PyObject* source) {
  return is_output(source) ? hook->output_subject.get(source) : PyTuple_GET_ITEM(source, 2);
}

// Of a source from outside: "parameter", "buffer", "state", "batch" or "outside".
const char* kind_of(PyObject* source) {
  const char* kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(source, 0));
  if (kind == nullptr) throw PythonError();
  return kind;
}

bool lasts(PyObject* source) {
  if (is_output(source)) return true;
  const char* kind = kind_of(source);
  return kind[0] == 'p' || kind[0] == 's' || (kind[0] == 'b' && kind[1] == 'u');
}

// ------------------------------------------------------------------------------------------ sites

bool is_user_code(PyObject* code) {
  if (const bool* found = hook->user_codes.find(code)) return *found;
  Ref name = checked(PyObject_GetAttrString(code, "co_filename"));
  Ref answer = checked(PyObject_CallOneArg(hook->user_file.get(), name.get()));
  if (hook->user_codes.size() >= kCodesRemembered) {
    hook->user_codes.clear();
    hook->codes.clear();
  }
  hook->codes.push_back(Ref::share(code));
  return hook->user_codes[code] = answer.get() == Py_True;
}

PyObject* code_of(PyFrameObject* frame) {  // borrowed: the frame keeps it
  PyCodeObject* code = PyFrame_GetCode(frame);
  Py_DECREF(code);
  return reinterpret_cast<PyObject*>(code);
}

Ref back_of(PyFrameObject* frame) {
  return Ref::take(reinterpret_cast<PyObject*>(PyFrame_GetBack(frame)));
}

PyFrameObject* as_frame(const Ref& ref) { return reinterpret_cast<PyFrameObject*>(ref.get()); }

Ref number(long value) { return checked(PyLong_FromLong(value)); }
Ref address(const void* pointer) { return checked(PyLong_FromVoidPtr(const_cast<void*>(pointer))); }

// The key of a site as capture/eager.py makes it.
Ref python_key(const Operator& op, const SiteKey& key, PyObject* scope, PyObject* subject) {
  if (key.phase == kBackward) return checked(PyTuple_Pack(2, op.object.get(), subject));
  Ref code = address(key.code), lasti = number(key.lasti);
  if (key.phase == kOptimizer) {
    return checked(
        PyTuple_Pack(5, op.object.get(), scope, code.get(), lasti.get(), subject));
  }
  Ref phase = number(key.phase), user = address(key.user), user_lasti = number(key.user_lasti),
      caller_lasti = number(key.caller_lasti);
  return checked(PyTuple_Pack(9, op.object.get(), scope, phase.get(), code.get(), lasti.get(),
                              user.get(), user_lasti.get(), caller_lasti.get(), subject));
}

PyObject* thread_state() {
  thread_local PyObject* state = nullptr;  // kept alive by the thread's own dictionary
  thread_local uint64_t generation = 0;
  if (generation != hook->generation) {
    Ref found = checked(PyObject_GetAttrString(hook->local.get(), "state"));
    state = found.get();
    generation = hook->generation;
  }
  return state;
}

// ------------------------------------------------------------------------------------------ a call

struct Call {
  const Operator* op = nullptr;
  std::deque<at::Tensor> held;  // tensors out of lists, and those written to
  c10::SmallVector<const at::Tensor*, 8> tensors;
  c10::SmallVector<PyObject*, 8> sources;
  c10::SmallVector<const at::Tensor*, 4> written;
  // Which of `tensors` are in `written` and still the same afterwards.
  size_t unchanged = 0, unchanged_end = 0;
  std::vector<Job> jobs;
  c10::SmallVector<at::Tensor, 8> inputs;  // kept for the alarm
  c10::SmallVector<const char*, 4> records;  // of outputs, for the alarm
  Ref node, base_source;
  Ref delivered;  // what Python calls this call, where it hands values to sinks
  int64_t node_id = 0, index = 0, flags = 0;
  at::Tensor base;

  void release() {  // with the interpreter lock held
    node = Ref();
    base_source = Ref();
    delivered = Ref();
  }
};

constexpr c10::DispatchKeySet kSubclass({c10::DispatchKey::Python});

// Collects the tensors of a call in the order of its arguments; false if one is a subclass.
bool collect(Call& call, const Arguments& stack) {
  const Operator& op = *call.op;
  const size_t count = op.shapes.size();
  const c10::IValue* arguments = stack.data() + (stack.size() - count);
  for (size_t i = 0; i < count; ++i) {
    if (op.shapes[i] == 0) continue;
    const c10::IValue& argument = arguments[i];
    const size_t first = call.tensors.size();
    if (argument.isTensor()) {
      const at::Tensor& tensor = argument.toTensor();
      if (!tensor.defined()) continue;
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) continue;  // a plain number in Python
      if (op.mutated[i] || op.nested) {  // wanted after the call, which takes the arguments off the stack
        call.held.push_back(tensor);
        call.tensors.push_back(&call.held.back());
      } else {
        call.tensors.push_back(&tensor);
      }
    } else if (argument.isList()) {
      for (const c10::IValue& item : argument.toListRef()) {
        if (!item.isTensor() || !item.toTensor().defined()) continue;
        call.held.push_back(item.toTensor());
        call.tensors.push_back(&call.held.back());
      }
    }
    if (op.mutated[i]) {
      for (size_t at = first; at < call.tensors.size(); ++at) {
        call.written.push_back(call.tensors[at]);
      }
      if (static_cast<int>(i) == op.spared && arguments[op.grad_scale].isNone() &&
          first < call.tensors.size() && call.tensors[first]->is_cuda()) {
        call.unchanged = first;
        call.unchanged_end = call.tensors.size();
      }
    }
  }
  for (const at::Tensor* tensor : call.tensors) {
    if (tensor->key_set().has_any(kSubclass)) return false;
  }
  return true;
}

struct Found {
  SiteKey key;
  Ref subject;
  PyObject* site = nullptr;
  bool leaves_eval = false;
};

// The forward node or the parameter whose gradient is computed; false if Python must find out.
bool find_origin(PyObject* state, Found& found) {
  const auto current = torch::autograd::get_current_node();
  if (!current) {
    found.subject = Ref::share(Py_None);
    return true;
  }
  const uint64_t sequence = current->sequence_nr();
  if (sequence == kAccumulate) {
    const auto* accumulate = dynamic_cast<torch::autograd::AccumulateGrad*>(current.get());
    if (accumulate == nullptr || !accumulate->variable.defined()) return false;
    Ref key = key_of(accumulate->variable.unsafeGetTensorImpl());
    PyObject* leaf = PyDict_GetItemWithError(hook->by_id.get(), key.get());
    if (leaf == nullptr) return false;
    found.subject = Ref::share(leaf);
    return true;
  }
  PyObject* home = hook->home.get(state);
  if (home == Py_None) return false;
  if (home != state && PyList_GET_SIZE(hook->node_of_number.get(state)) != 0) return false;
  PyObject* nodes = hook->node_of_number.get(home);
  const int64_t index = static_cast<int64_t>(sequence) - hook->number_base.number(home);
  if (index < 0 || index >= PyList_GET_SIZE(nodes)) return false;
  found.subject = Ref::share(PyList_GET_ITEM(nodes, index));
  return true;
}

// The parameter an optimizer's operator is about, or all of them; false if Python must find out.
bool find_subject(const Call& call, Found& found) {
  if (call.sources.empty()) {
    found.subject = Ref::share(Py_None);
    return true;
  }
  PyObject* first = subject_of(call.sources[0]);
  if (!call.op->nested && PyUnicode_GET_LENGTH(first) != 0) {
    found.subject = Ref::share(first);
    return true;
  }
  Ref all = checked(PyList_New(0));
  bool differ = false;
  for (PyObject* source : call.sources) {
    PyObject* subject = subject_of(source);
    if (PyUnicode_GET_LENGTH(subject) == 0) continue;
    if (PyList_Append(all.get(), subject) < 0) throw PythonError();
    PyObject* before = PyList_GET_ITEM(all.get(), 0);
    differ = differ || (subject != before && PyUnicode_Compare(subject, before) != 0);
  }
  if (PyList_GET_SIZE(all.get()) == 0) return false;
  found.subject = differ ? checked(PyList_AsTuple(all.get()))
                         : Ref::share(PyList_GET_ITEM(all.get(), 0));
  return true;
}

// Which call site this is; false if Python must find out.
bool find_site(PyObject* state, const Call& call, Found& found) {
  int phase = static_cast<int>(hook->phase.number(state));
  PyObject* scope = hook->scope.get(state);
  SiteKey& key = found.key;
  key = SiteKey{call.op, nullptr, nullptr, nullptr, nullptr, 0, 0, 0, 0};
  PyFrameObject* frame = PyEval_GetFrame();
  PyObject* code = frame == nullptr ? nullptr : code_of(frame);
  if (frame == nullptr || code == hook->engine_code.get()) {
    phase = kBackward;
    if (!find_origin(state, found)) return false;
  } else {
    if (phase >= kEval || hook->backward_depth.number(state) != 0) {
      if (phase != kOptimizer) {
        if (hook->backward_depth.number(state) != 0) return false;
        if (phase == kEval) {
          found.leaves_eval =
              hook->depth.number(state) == 0 && c10::GradMode::is_enabled();
          if (found.leaves_eval) phase = kForward;
        } else if (phase == kTail) {
          phase = c10::GradMode::is_enabled() ? kForward : kOptimizer;
        }
      }
    }
    key.scope = scope;
    key.code = code;
    key.lasti = PyFrame_GetLasti(frame);
    if (phase == kOptimizer) {
      if (!find_subject(call, found)) return false;
    } else {
      found.subject = Ref::share(Py_None);
      Ref user = Ref::share(reinterpret_cast<PyObject*>(frame));
      while (!is_user_code(code_of(as_frame(user)))) {
        Ref back = back_of(as_frame(user));
        if (!back) break;
        user = std::move(back);
      }
      key.user = code_of(as_frame(user));
      key.user_lasti = PyFrame_GetLasti(as_frame(user));
      if (hook->depth.number(state) != 0) {
        // In a module, a helper called from two lines is two places.
        Ref caller = back_of(as_frame(user));
        key.caller_lasti = caller ? PyFrame_GetLasti(as_frame(caller)) : 0;
      }
    }
  }
  key.phase = phase;
  key.subject = found.subject.get();
  const bool stable = !PyTuple_CheckExact(found.subject.get());  // a tuple is a new one each time
  if (stable) {
    if (const FoundSite* at = hook->found_sites.find(key)) {
      found.site = at->site;
      return true;
    }
  }
  Ref object = python_key(*call.op, key, scope, found.subject.get());
  found.site = PyDict_GetItemWithError(hook->sites.get(), object.get());
  if (found.site == nullptr) return false;
  if (stable) {
    if (hook->found_sites.size() >= kSitesRemembered) hook->found_sites.clear();
    hook->found_sites[key] = FoundSite{found.site, Ref::share(found.subject.get())};
  }
  return true;
}

PyObject* node_at(PyObject* site) {  // borrowed; null if Python must make it
  if (hook->site_step.number(site) != hook->step) return hook->site_first.get(site);
  PyObject* more = hook->site_more.get(site);
  const long position = hook->site_calls.number(site);
  if (more == Py_None || position > PyList_GET_SIZE(more)) return nullptr;
  return PyList_GET_ITEM(more, position - 1);
}

int64_t flags_of(PyObject* node) {
  PyObject* plan = hook->node_plan.get(node);
  if (plan == Py_None || hook->plan_revision.number(plan) != hook->revision) {
    checked(PyObject_CallOneArg(hook->plan_for.get(), node));
    plan = hook->node_plan.get(node);
  }
  return hook->plan_flags.number(plan);
}

void number_nodes(PyObject* state, PyObject* node, int64_t made, int64_t now) {
  PyObject* numbers = hook->node_of_number.get(state);
  if (hook->pending_view.truth(state)) {
    // CopySlices gets its number only after the operator that wrote to the view.
    if (PyList_Append(numbers, hook->previous.get(state)) < 0) throw PythonError();
    --made;
  }
  for (; made > 0; --made) {
    if (PyList_Append(numbers, node) < 0) throw PythonError();
  }
  hook->last_number.set_number(state, now);
}

bool same_sources(PyObject* list, const Call& call) {
  const auto count = static_cast<Py_ssize_t>(call.sources.size());
  if (PyList_GET_SIZE(list) != count) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PyList_GET_ITEM(list, i) != call.sources[i]) return false;
  }
  return true;
}

Ref list_of(const c10::SmallVectorImpl<const at::Tensor*>& tensors) {
  Ref list = checked(PyList_New(0));
  for (const at::Tensor* tensor : tensors) {
    Ref object = tensor == nullptr ? Ref::share(Py_None) : checked(THPVariable_Wrap(*tensor));
    if (PyList_Append(list.get(), object.get()) < 0) throw PythonError();
  }
  return list;
}

void set_sources(Call& call, PyObject* node) {
  Ref list = checked(PyList_New(static_cast<Py_ssize_t>(call.sources.size())));
  for (size_t i = 0; i < call.sources.size(); ++i) {
    Py_INCREF(call.sources[i]);
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), call.sources[i]);
  }
  const bool equal = PyObject_RichCompareBool(list.get(), hook->node_sources.get(node), Py_EQ) == 1;
  hook->node_sources.set(node, list.get());
  if (!equal && PyList_Append(hook->changed.get(), node) < 0) throw PythonError();
}

void note_write(Call& call, PyObject* state, PyObject* node, int phase) {
  const bool pending = phase != kOptimizer && !call.tensors.empty() &&
                       c10::GradMode::is_enabled() && call.tensors[0]->is_view();
  hook->pending_view.set(state, pending ? Py_True : Py_False);
  hook->previous.set(state, node);
}

// The rows of before are void; what waits to be read is read now.
void announce_write(Call& call) {
  c10::SmallVector<const at::Tensor*, 4> waiting;  // that Python waits to read
  size_t same = call.unchanged;
  for (const at::Tensor* tensor : call.written) {
    if (same < call.unchanged_end && tensor == call.tensors[same]) {
      ++same;
      continue;
    }
    hook->rows.note_write(*tensor);
    if (!tensor->is_cuda()) continue;
    CudaLane* lane = hook->rows.lane_of(*tensor);
    if (lane != nullptr) lane->before_write(*tensor);
    if (lane != nullptr ? lane->python_waits(*tensor) : hook->rows.python_lanes) {
      waiting.push_back(tensor);
    }
  }
  if (!waiting.empty()) {
    Quiet quiet;
    Ref list = list_of(waiting);
    checked(PyObject_CallOneArg(hook->before_write.get(), list.get()));
  }
}

void note_moment(const Call& call) {
  int64_t stream = 0;
  if (!call.tensors.empty() && call.tensors[0]->is_cuda()) {
    const auto device = call.tensors[0]->device();
    stream = c10::impl::getDeviceGuardImpl(device.type())->getStream(device).id();
  }
  auto& moments = hook->rows.moments;
  moments.push_back(call.index);
  moments.push_back(stream);
  moments.push_back(now_us());
}

using Produced = c10::SmallVector<const at::Tensor*, 8>;

// As in capture/operators.py: whether a conversion changes no number.
bool keeps_values(c10::ScalarType before, c10::ScalarType after) {
  if (before == after) return true;
  const bool half = before == c10::ScalarType::Half || before == c10::ScalarType::BFloat16;
  return (after == c10::ScalarType::Double && (half || before == c10::ScalarType::Float)) ||
         (after == c10::ScalarType::Float && half);
}

// The row of what came from `source`, if it is of these very elements; null otherwise.
const Seen* seen_of(PyObject* source, const at::Tensor& tensor) {
  RowBook& rows = hook->rows;
  const Seen* seen = nullptr;
  if (is_output(source)) {
    auto& outputs = rows.outputs(hook->node_id.number(hook->output_node.get(source)));
    const auto slot = static_cast<size_t>(hook->output_slot.number(source));
    if (slot < outputs.size()) seen = &outputs[slot];
  } else if (lasts(source)) {
    seen = &rows.outside(source);
  }
  return seen != nullptr && rows.is_row_of(*seen, tensor) ? seen : nullptr;
}

void measure_inputs(Call& call) {
  RowBook& rows = hook->rows;
  auto& seen = rows.inputs(call.node_id);
  if (seen.size() < call.tensors.size()) seen.resize(call.tensors.size());
  const Place place{hook->step, call.node_id, call.index, kInput};
  for (size_t slot = 0; slot < call.tensors.size(); ++slot) {
    PyObject* source = call.sources[slot];
    const bool from_operator = is_output(source);
    if (from_operator && (!(call.flags & kInputStats) || hook->output_uninitialised.truth(source)))
      continue;
    if (!from_operator && !(call.flags & kInputStats) && kind_of(source)[0] == 's') continue;
    const at::Tensor& tensor = *call.tensors[slot];
    const Seen* known = seen_of(source, tensor);
    rows.measure(place, static_cast<int64_t>(slot), tensor, source, known, seen[slot], call.jobs);
    if (!from_operator && known == nullptr && lasts(source)) rows.outside(source) = seen[slot];
  }
}

void measure_outputs(Call& call, const c10::SmallVectorImpl<const at::Tensor*>& produced,
                     PyObject* outputs) {
  RowBook& rows = hook->rows;
  auto& seen = rows.outputs(call.node_id);
  if (seen.size() < produced.size()) seen.resize(produced.size());
  const Place place{hook->step, call.node_id, call.index, kOutput};
  rows.together = produced.size() >= kMany;
  size_t same = call.unchanged;
  for (size_t slot = 0; slot < produced.size(); ++slot) {
    const at::Tensor* tensor = produced[slot];
    PyObject* output = PyList_GET_ITEM(outputs, static_cast<Py_ssize_t>(slot));
    if (tensor == nullptr || hook->output_uninitialised.truth(output)) continue;
    const Seen* known = nullptr;
    if (call.op->same_elements && call.base.defined() && call.base.numel() == tensor->numel() &&
        keeps_values(call.base.scalar_type(), tensor->scalar_type())) {
      known = seen_of(call.base_source.get(), call.base);
    }
    if (same < call.unchanged_end && tensor == call.tensors[same]) {
      known = seen_of(call.sources[same++], *tensor);
    }
    const char* record =
        rows.measure(place, static_cast<int64_t>(slot), *tensor, output, known, seen[slot], call.jobs);
    if (hook->alarmed && record != nullptr && tensor->is_cpu()) call.records.push_back(record);
  }
  if (rows.together) rows.launch_together();
}

// Tells of a call that made NaN or Inf, while its tensors are at hand.
void raise_alarm(Call& call, PyObject* node, const Produced& produced, bool has_nan) {
  Quiet quiet;
  c10::SmallVector<const at::Tensor*, 8> inputs;
  for (const at::Tensor& tensor : call.inputs) inputs.push_back(&tensor);
  Ref index = number(call.index), read = list_of(inputs), made = list_of(produced);
  checked(PyObject_CallFunctionObjArgs(hook->alarm.get(), node, index.get(),
                                       has_nan ? Py_True : Py_False, read.get(), made.get(),
                                       nullptr));
}

// Sinks want the tensors themselves.
void begin_in_python(Call& call, PyObject* node) {
  Quiet quiet;
  Ref tensors = list_of(call.tensors);
  Ref index = number(call.index);
  call.delivered = checked(PyObject_CallFunctionObjArgs(hook->begin_call.get(),
                                                        hook->node_plan.get(node), node,
                                                        index.get(), tensors.get(), nullptr));
}

void end_in_python(Call& call, PyObject* node,
                   const c10::SmallVectorImpl<const at::Tensor*>& produced) {
  Quiet quiet;
  Ref outputs = list_of(produced);
  Ref inputs = checked(PyList_New(0)), sources = checked(PyList_New(0));
  if (call.base.defined()) {
    Ref base = checked(THPVariable_Wrap(call.base));
    if (PyList_Append(inputs.get(), base.get()) < 0) throw PythonError();
    if (PyList_Append(sources.get(), call.base_source.get()) < 0) throw PythonError();
  }
  checked(PyObject_CallFunctionObjArgs(hook->end_call.get(), hook->node_plan.get(node),
                                       call.delivered.get(), call.op->object.get(), outputs.get(),
                                       inputs.get(), sources.get(), nullptr));
}

// Everything before the operator runs; false, with nothing changed, if Python must do it.
bool begin(Call& call) {
  if (PyDict_GET_SIZE(hook->late.get()) != 0) return false;
  PyObject* state = thread_state();
  if (!hook->admitted.truth(state) || hook->phase.number(state) == kSetup) return false;
  const auto now = static_cast<int64_t>(at::sequence_number::peek());
  const int64_t last = hook->last_number.number(state);
  const int64_t made = now - last;
  if (last == hook->reserved || made < 0 || made > kKeptNumbers) return false;
  for (const at::Tensor* tensor : call.tensors) call.sources.push_back(source_of(*tensor));
  Found found;
  if (!find_site(state, call, found)) return false;
  PyObject* node = node_at(found.site);
  if (node == nullptr) return false;
  if (call.op->kind != kNothing && PyList_GET_SIZE(hook->node_outputs.get(node)) == 0) return false;
  const int64_t flags = flags_of(node);
  if (flags & kArguments) return false;

  call.node = Ref::share(node);
  call.node_id = hook->node_id.number(node);
  call.flags = flags;
  if (found.leaves_eval) hook->phase.set_number(state, kForward);
  if (hook->site_step.number(found.site) != hook->step) {
    hook->site_step.set_number(found.site, hook->step);
    hook->site_calls.set_number(found.site, 1);
  } else {
    hook->site_calls.set_number(found.site, hook->site_calls.number(found.site) + 1);
  }
  call.index = PyList_GET_SIZE(hook->order.get());
  if (PyList_Append(hook->order.get(), node) < 0) throw PythonError();
  if (made != 0) number_nodes(state, node, made, now);
  if (call.op->writes) {
    note_write(call, state, node, found.key.phase);
  } else if (hook->pending_view.truth(state)) {
    hook->pending_view.set(state, Py_False);
  }
  if (!same_sources(hook->node_sources.get(node), call)) set_sources(call, node);
  if (flags & kValues) {
    begin_in_python(call, node);
  } else if (flags != 0) {
    note_moment(call);
    if (hook->alarmed) {
      for (const at::Tensor* tensor : call.tensors) call.inputs.push_back(*tensor);
    }
    if (flags & (kInputStats | kOutsideStats)) measure_inputs(call);
  }
  if (call.op->writes) announce_write(call);
  // NumPy may write to a tensor of the CPU without our notice, and a copy of it shows that.
  const bool copies = call.op->same_elements && !call.tensors.empty() && call.tensors[0]->is_cuda();
  if ((call.op->view && !call.tensors.empty()) || copies) {
    call.base = *call.tensors[0];
    call.base_source = Ref::share(call.sources[0]);
  }
  return true;
}

// The outputs by slot: what was returned, null where nothing was, then what else was written to.
Produced collect_outputs(Call& call, const c10::OperatorHandle& handle, const Arguments& stack) {
  Produced produced;
  const size_t count = handle.schema().returns().size();
  const c10::IValue* results = stack.data() + (stack.size() - count);
  for (size_t i = 0; i < count; ++i) {
    if (results[i].isTensor()) {
      const bool defined = results[i].toTensor().defined();
      if (defined || call.op->kind == kSeveral) {
        produced.push_back(defined ? &results[i].toTensor() : nullptr);
      }
    } else if (results[i].isList()) {
      for (const c10::IValue& item : results[i].toListRef()) {
        if (!item.isTensor() || !item.toTensor().defined()) continue;
        call.held.push_back(item.toTensor());
        produced.push_back(&call.held.back());
      }
    }
  }
  const size_t returned = produced.size();
  for (const at::Tensor* tensor : call.written) {
    bool again = false;
    for (size_t i = 0; i < returned; ++i) {
      again = again || (produced[i] != nullptr && produced[i]->is_same(*tensor));
    }
    if (!again) produced.push_back(tensor);
  }
  return produced;
}

bool was_written(const Call& call, const at::Tensor& tensor) {
  for (const at::Tensor* written : call.written) {
    if (written->is_same(tensor)) return true;
  }
  return false;
}

// Everything after the operator ran.
void finish(Call& call, const c10::OperatorHandle& handle, const Arguments& stack) {
  PyObject* node = call.node.get();
  if (hook->node_raised.truth(node)) hook->node_raised.set(node, Py_False);
  if (call.op->kind == kNothing && !call.delivered) return;
  const Produced produced = collect_outputs(call, handle, stack);
  PyObject* outputs = hook->node_outputs.get(node);
  if (PyList_GET_SIZE(outputs) < static_cast<Py_ssize_t>(produced.size())) {
    Quiet quiet;
    Ref list = list_of(produced);
    Ref inputs = call.op->nested ? list_of(call.tensors) : checked(PyList_New(0));
    checked(PyObject_CallFunctionObjArgs(hook->add_outputs.get(), call.op->object.get(), node,
                                         list.get(), inputs.get(), nullptr));
    outputs = hook->node_outputs.get(node);
  }
  for (size_t slot = 0; slot < produced.size(); ++slot) {
    const at::Tensor* tensor = produced[slot];
    if (tensor == nullptr) continue;
    const c10::TensorImpl* impl = tensor->unsafeGetTensorImpl();
    PyObject* output = PyList_GET_ITEM(outputs, static_cast<Py_ssize_t>(slot));
    if (call.op->writes && was_written(call, *tensor)) {
      known().put_write(impl, output);
    } else if (call.op->view && call.base.defined()) {
      known().put_view(impl, call.base.unsafeGetTensorImpl(), call.base_source.get(), output);
    } else {
      known().put(impl, output);
    }
  }
  if (call.delivered) {
    end_in_python(call, node, produced);
  } else if (call.flags & kOutputStats) {
    measure_outputs(call, produced, outputs);
  }
}

// Says what went wrong, once; an interrupt or an exit, raised in a callback, goes on to the script.
void report(const char* what) {
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) {
    python_error raised;
    raised.persist();
    throw raised;
  }
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref done = Ref::take(PyObject_CallFunction(hook->report.get(), "sO", what,
                                             value == nullptr ? Py_None : value));
  if (!done) PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

// --------------------------------------------------------------------------------- the functions

enum class How { kPlain, kPython, kHere };

How begin_guarded(Call& call) {
  try {
    return begin(call) ? How::kHere : How::kPython;
  } catch (const std::exception& error) {
    call.release();
    call.jobs.clear();
    report(error.what());
    return How::kPlain;
  }
}

// How operators reach us as a mode of Python's.
struct ByMode {
  const c10::OperatorHandle& handle;
  Arguments* stack;
  void plain() const {
    WithoutMode guard;
    handle.callBoxed(stack);
  }
  void python() const { python_dispatch(interpreter.original, handle, stack); }
};

// How operators reach us by a dispatch key of our own, without any of Python's machinery.
struct ByKey {
  const c10::OperatorHandle& handle;
  Arguments* stack;
  c10::DispatchKeySet keys;
  void plain() const { handle.redispatchBoxed(keys & kBelow, stack); }
  void python() const {
    // As torch does around a mode; with Python itself excluded it would not find the mode.
    c10::impl::ExcludeDispatchKeyGuard above(
        kAbove - c10::DispatchKeySet(c10::DispatchKey::Python));
    TorchDispatchModeTLS::push_non_infra_mode_onto_stack(hook->as_mode);
    try {
      python_dispatch(interpreter.original, handle, stack);
    } catch (...) {
      TorchDispatchModeTLS::pop_stack();
      throw;
    }
    TorchDispatchModeTLS::pop_stack();
  }
};

template <class Road>
void watch(const Road& road) {
  const c10::OperatorHandle& handle = road.handle;
  Arguments* stack = road.stack;
  Call call;
  How how = How::kPython;
  {
    Gil gil;
    const std::unique_ptr<Operator>* found = hook->operators.find(&handle.schema());
    if (found != nullptr && !hook->many && !(*found)->only_python) {
      call.op = found->get();
      if (call.op->ignored) {
        how = How::kPlain;
      } else if (collect(call, *stack)) {
        how = begin_guarded(call);
      }
    }
  }
  if (how == How::kPython) {
    ++hook->python_calls;
    return road.python();
  }
  if (how == How::kPlain) return road.plain();
  ++hook->native_calls;
  run(call.jobs, hook->rows.row);
  call.jobs.clear();
  PyObject* node = nullptr;
  try {
    road.plain();
  } catch (...) {
    Gil gil;
    hook->node_raised.set(call.node.get(), Py_True);
    call.release();
    throw;
  }
  {
    Gil gil;
    node = call.node.get();  // which its mode keeps
    try {
      finish(call, handle, *stack);
      call.release();
    } catch (const std::exception& error) {
      call.release();
      report(error.what());
    }
  }
  run(call.jobs, hook->rows.row);
  bool has_nan = false, bad = false;
  for (const char* record : call.records) {
    has_nan = has_nan || count_at(record, kNan) != 0;
    bad = bad || has_nan || (count_at(record, kPosinf) | count_at(record, kNeginf)) != 0;
  }
  if (bad) {
    Gil gil;
    try {
      raise_alarm(call, node, collect_outputs(call, handle, *stack), has_nan);
    } catch (const std::exception& error) {
      report(error.what());
    }
  }
}

void dispatch(const void*, const c10::OperatorHandle& handle, Arguments* stack) {
  if (!mode_is_on_top()) return python_dispatch(interpreter.original, handle, stack);
  const ByMode road{handle, stack};
  if (!hook->recording) return road.plain();
  watch(road);
}

bool has_subclass(const c10::OperatorHandle& handle, const Arguments& stack) {
  const size_t count = handle.schema().arguments().size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (stack[i].isTensor() && stack[i].toTensor().defined() &&
        stack[i].toTensor().key_set().has_any(kSubclass))
      return true;
  }
  return false;
}

// Where Python's modes come after us, we let them have their turn and come after them, as a mode.
void become_mode(const c10::OperatorHandle& handle, Arguments* stack) {
  {
    Gil gil;
    Quiet quiet;
    Ref done = Ref::take(PyObject_CallNoArgs(hook->become_mode.get()));
    if (!done) report("becoming a mode failed");
  }
  const c10::DispatchKeySet snapshot(c10::DispatchKey::PythonTLSSnapshot);
  c10::impl::ExcludeDispatchKeyGuard above(
      kAbove - snapshot - c10::DispatchKeySet(c10::DispatchKey::Python));
  handle.callBoxed(stack);
}

void by_key(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Arguments* stack) {
  const ByKey road{handle, stack, keys};
  c10::impl::ExcludeDispatchKeyGuard guard(kKey);  // what an operator does inside is its own affair
  const bool quiet = c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python);
  if (hook == nullptr || !hook->recording || quiet) return road.plain();
  if constexpr (!kBelowModes) {
    if (TorchDispatchModeTLS::stack_len() > 0 || has_subclass(handle, *stack)) {
      return become_mode(handle, stack);
    }
  }
  watch(road);
}

// Autograd saves a tensor: a view of it, made without an operator.
c10::intrusive_ptr<c10::TensorImpl> detach(const void*, const c10::TensorImpl* self) {
  if (!mode_is_on_top() || hook->many || self->key_set().has_any(kSubclass)) {
    return python_detach(interpreter.original, self);
  }
  c10::intrusive_ptr<c10::TensorImpl> copy;
  {
    WithoutMode guard;
    copy = self->shallow_copy_and_detach(c10::VariableVersion(0), false);
  }
  if (!hook->recording) return copy;
  Gil gil;
  if (PyObject* source = known().get(self)) {
    known().put_view(copy.get(), self, source, source);
  } else {
    known().drop(copy.get());
  }
  return copy;
}

// ------------------------------------------------------------------------------------- the module

template <class Function>
size_t slot_of(Function function) {  // of a virtual function, in the Itanium C++ ABI
  ptrdiff_t raw;
  static_assert(sizeof function >= sizeof raw);
  std::memcpy(&raw, &function, sizeof raw);
  return static_cast<size_t>(raw - 1) / sizeof(void*);
}

PyObject* install(PyObject*, PyObject*) {
  if (!interpreter.installed) {
    c10::impl::PyInterpreter* torch = getPyInterpreter();
    interpreter.original = torch->vtable_;
    void** functions = *reinterpret_cast<void***>(
        const_cast<c10::impl::PyInterpreterVTable*>(interpreter.original));
    std::memcpy(interpreter.table, functions - 2, sizeof interpreter.table);
    const size_t at_dispatch = slot_of(&c10::impl::PyInterpreterVTable::dispatch);
    const size_t at_detach = slot_of(&c10::impl::PyInterpreterVTable::detach);
    python_dispatch = reinterpret_cast<DispatchFunction>(functions[at_dispatch]);
    python_detach = reinterpret_cast<DetachFunction>(functions[at_detach]);
    interpreter.table[2 + at_dispatch] = reinterpret_cast<void*>(dispatch);
    interpreter.table[2 + at_detach] = reinterpret_cast<void*>(detach);
    interpreter.functions[0] = interpreter.table + 2;
    torch->vtable_ = reinterpret_cast<const c10::impl::PyInterpreterVTable*>(interpreter.functions);
    interpreter.installed = true;
  }
  Py_RETURN_NONE;
}

// Registers our function for our key, once; false if somebody else has the key.
bool claim_key() {
  static std::unique_ptr<torch::Library> library;
  if (library) return true;
  try {
    auto made = std::make_unique<torch::Library>(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&by_key>());
    library = std::move(made);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

PyObject* py_claim_key(PyObject*, PyObject*) { return PyBool_FromLong(claim_key()); }

PyObject* py_watch_thread(PyObject*, PyObject* on) {
  c10::impl::tls_set_dispatch_key_included(kKey, on == Py_True);
  Py_RETURN_NONE;
}

PyObject* remove(PyObject*, PyObject*) {
  if (interpreter.installed) {
    getPyInterpreter()->vtable_ = interpreter.original;
    interpreter.installed = false;
  }
  if (hook != nullptr) {
    hook->recording = false;
    hook->mode_pointer = nullptr;
    hook->rows.lanes.clear();
  }
  Py_RETURN_NONE;
}

Ref take(PyObject* settings, const char* name) {
  PyObject* found = PyDict_GetItemString(settings, name);
  if (found == nullptr) throw std::runtime_error(std::string("missing: ") + name);
  return Ref::share(found);
}

long number_in(PyObject* settings, const char* name) {
  return PyLong_AsLong(take(settings, name).get());
}

void configure(PyObject* settings) {
  static uint64_t generation = 0;
  auto made = std::make_unique<Hook>();
  Hook& h = *made;
  h.generation = ++generation;
  h.mode = take(settings, "mode");
  h.mode_pointer = h.mode.get();
  h.as_mode = std::make_shared<c10::impl::PyObject_TorchDispatchMode>(
      Py_NewRef(h.mode.get()), getPyInterpreter());
  h.become_mode = take(settings, "become_mode");
  h.local = take(settings, "local");
  h.sites = take(settings, "sites");
  h.late = take(settings, "late");
  h.by_id = take(settings, "by_id");
  h.known_object = take(settings, "known");
  if (!Py_IS_TYPE(h.known_object.get(), &KnownType)) throw std::runtime_error("not a Known");
  h.known = reinterpret_cast<KnownObject*>(h.known_object.get())->map;
  h.engine_code = take(settings, "engine_code");
  h.user_file = take(settings, "user_file");
  h.outside = take(settings, "outside");
  h.plan_for = take(settings, "plan_for");
  h.add_outputs = take(settings, "add_outputs");
  h.begin_call = take(settings, "begin_call");
  h.end_call = take(settings, "end_call");
  h.before_write = take(settings, "before_write");
  h.report = take(settings, "report");
  h.alarm = take(settings, "alarm");
  h.alarmed = h.alarm.get() != Py_None;
  h.reserved = number_in(settings, "reserved");
  Ref state = take(settings, "ThreadState"), site = take(settings, "Site"),
      node = take(settings, "Node"), output = take(settings, "Output"),
      plan = take(settings, "Plan");
  h.admitted = Slot(state.get(), "admitted");
  h.home = Slot(state.get(), "home");
  h.scope = Slot(state.get(), "scope");
  h.phase = Slot(state.get(), "phase");
  h.depth = Slot(state.get(), "depth");
  h.backward_depth = Slot(state.get(), "backward_depth");
  h.pending_view = Slot(state.get(), "pending_view");
  h.previous = Slot(state.get(), "previous");
  h.last_number = Slot(state.get(), "last_number");
  h.number_base = Slot(state.get(), "number_base");
  h.node_of_number = Slot(state.get(), "node_of_number");
  h.site_calls = Slot(site.get(), "calls");
  h.site_first = Slot(site.get(), "first");
  h.site_more = Slot(site.get(), "more");
  h.site_step = Slot(site.get(), "step");
  h.node_id = Slot(node.get(), "id");
  h.node_outputs = Slot(node.get(), "outputs");
  h.node_sources = Slot(node.get(), "sources");
  h.node_raised = Slot(node.get(), "raised");
  h.node_plan = Slot(node.get(), "plan");
  h.output_node = Slot(output.get(), "node");
  h.output_slot = Slot(output.get(), "slot");
  h.output_subject = Slot(output.get(), "subject");
  h.output_uninitialised = Slot(output.get(), "uninitialised");
  h.plan_flags = Slot(plan.get(), "flags");
  h.plan_revision = Slot(plan.get(), "revision");
  h.output_type = reinterpret_cast<PyTypeObject*>(output.get());
  h.rows.measure_slowly = take(settings, "measure_slowly");
  h.rows.kind_number = take(settings, "kind_number");
  h.rows.advance = take(settings, "advance");
  h.rows.submit = take(settings, "submit");
  h.rows.row = reinterpret_cast<RowFunction>(PyLong_AsVoidPtr(take(settings, "row").get()));
  Ref names = take(settings, "dtypes");
  PyObject *name = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(names.get(), &position, &name, &value)) {
    const auto at = static_cast<size_t>(PyLong_AsLong(value));
    if (h.rows.dtype_names.size() <= at) h.rows.dtype_names.resize(at + 1);
    h.rows.dtype_names[at] = PyUnicode_AsUTF8(name);
  }
  if (PyErr_Occurred()) throw PythonError();
  delete hook;
  hook = made.release();
}

void register_operator(const char* name, const char* overload, PyObject* object) {
  const auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!handle.has_value()) return;
  const auto flag = [object](const char* attribute) {
    return PyObject_IsTrue(checked(PyObject_GetAttrString(object, attribute)).get()) == 1;
  };
  auto op = std::make_unique<Operator>();
  op->object = Ref::share(object);
  Ref kind = checked(PyObject_GetAttrString(object, "kind"));
  op->kind = static_cast<Kind>(PyLong_AsLong(kind.get()));
  op->ignored = flag("ignored");
  op->nested = flag("nested");
  op->writes = flag("writes");
  op->view = flag("view");
  op->same_elements = flag("same_elements");
  op->only_python = flag("asynchronous") || flag("waits") || flag("fresh");
  const auto& arguments = handle->schema().arguments();
  op->shapes.resize(arguments.size());
  op->mutated.resize(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string type = arguments[i].type()->str();
    if (type.find("Tensor") == std::string::npos) continue;
    op->shapes[i] = type == "Tensor" || type == "Tensor?" ? 1 : 2;
  }
  Ref spared = checked(PyObject_GetAttrString(object, "spared"));
  op->spared = static_cast<int>(PyLong_AsLong(spared.get()));
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "grad_scale") op->grad_scale = static_cast<int>(i);
  }
  if (op->grad_scale < 0) op->spared = -1;
  Ref mutated = checked(PyObject_GetAttrString(object, "mutated"));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mutated.get()); ++i) {
    const long at = PyLong_AsLong(PyTuple_GET_ITEM(PyTuple_GET_ITEM(mutated.get(), i), 0));
    op->mutated.at(static_cast<size_t>(at)) = 1;
  }
  hook->operators[&handle->schema()] = std::move(op);
}

// Runs a function of the module: C++ exceptions become Python's.
template <class Function>
PyObject* translated(Function function) {
  try {
    return function();
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

// The same, for what needs a hook.
template <class Function>
PyObject* guarded(Function function) {
  return translated([&] {
    if (hook == nullptr) throw std::runtime_error("the hook is not configured");
    return function();
  });
}

PyObject* none() { Py_RETURN_NONE; }

PyObject* py_configure(PyObject*, PyObject* settings) {
  return translated([&] {
    configure(settings);
    return none();
  });
}

PyObject* py_register(PyObject*, PyObject* arguments) {
  const char *name = nullptr, *overload = nullptr;
  PyObject* object = nullptr;
  if (!PyArg_ParseTuple(arguments, "ssO", &name, &overload, &object)) return nullptr;
  return guarded([&] {
    register_operator(name, overload, object);
    return none();
  });
}

PyObject* py_begin(PyObject*, PyObject* arguments) {
  PyObject *order = nullptr, *changed = nullptr;
  long step = 0;
  if (!PyArg_ParseTuple(arguments, "O!O!l", &PyList_Type, &order, &PyList_Type, &changed, &step))
    return nullptr;
  return guarded([&] {
    hook->order = Ref::share(order);
    hook->changed = Ref::share(changed);
    hook->step = step;
    return none();
  });
}

PyObject* py_set_state(PyObject*, PyObject* arguments) {
  int recording = 0, many = 0;
  long revision = 0;
  if (!PyArg_ParseTuple(arguments, "ppl", &recording, &many, &revision)) return nullptr;
  return guarded([&] {
    hook->recording = recording != 0;
    hook->many = many != 0;
    hook->revision = revision;
    return none();
  });
}

PyObject* py_set_cursor(PyObject*, PyObject* cursor) {
  return guarded([&] {
    hook->rows.cursor = static_cast<int64_t*>(PyLong_AsVoidPtr(cursor));
    return none();
  });
}

PyObject* py_note_write(PyObject*, PyObject* tensor) {
  return guarded([&] {
    if (!THPVariable_Check(tensor)) return none();
    const at::Tensor& written = THPVariable_Unpack(tensor);
    hook->rows.note_write(written);
    if (written.is_cuda()) {
      if (CudaLane* lane = hook->rows.lane_of(written)) lane->before_write(written);
    }
    return none();
  });
}

Ref bytes_of(const std::vector<int64_t>& numbers) {
  return checked(
      PyBytes_FromStringAndSize(reinterpret_cast<const char*>(numbers.data()),
                                static_cast<Py_ssize_t>(numbers.size() * sizeof(int64_t))));
}

PyObject* py_end_step(PyObject*, PyObject*) {
  return guarded([&] {
    RowBook& rows = hook->rows;
    Ref moments = bytes_of(rows.moments), copies = bytes_of(rows.copies);
    rows.end_step();
    return PyTuple_Pack(2, moments.get(), copies.get());
  });
}

// A device that rows are asked of: its index, its DeviceRows, or None if these can be enqueued by
// Python only, and a list of (dtype number, form number, bytes per element, elements per group).
PyObject* py_add_lane(PyObject*, PyObject* arguments) {
  int index = 0;
  PyObject *device = nullptr, *forms = nullptr;
  if (!PyArg_ParseTuple(arguments, "iOO!", &index, &device, &PyList_Type, &forms)) return nullptr;
  return guarded([&] {
    if (!has_cuda_driver() || index < 0 || device == Py_None) {
      hook->rows.python_lanes = true;
      return none();
    }
    std::vector<Form> by_dtype;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(forms); ++i) {
      int dtype = 0, number = 0;
      long long size = 0, group = 0;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(forms, i), "iiLL", &dtype, &number, &size, &group))
        throw PythonError();
      if (by_dtype.size() <= static_cast<size_t>(dtype)) by_dtype.resize(dtype + 1);
      by_dtype[dtype] = Form{number, size, group};
    }
    auto& lanes = hook->rows.lanes;
    if (lanes.size() <= static_cast<size_t>(index)) lanes.resize(index + 1);
    lanes[index] = std::make_unique<CudaLane>(device, index, std::move(by_dtype));
    return none();
  });
}

PyObject* py_launch_all(PyObject*, PyObject*) {
  return guarded([&] {
    for (const auto& lane : hook->rows.lanes) {
      if (lane) lane->end_step();
    }
    return none();
  });
}

PyObject* py_key(PyObject*, PyObject* tensor) {
  if (!THPVariable_Check(tensor)) return PyLong_FromVoidPtr(tensor);
  return PyLong_FromVoidPtr(THPVariable_Unpack(tensor).unsafeGetTensorImpl());
}

PyObject* py_counts(PyObject*, PyObject*) {
  return guarded([&] { return Py_BuildValue("LL", hook->native_calls, hook->python_calls); });
}

PyMethodDef methods[] = {
    {"configure", py_configure, METH_O, "Begin a capture: its mode, classes and callbacks."},
    {"register", py_register, METH_VARARGS, "An operator that Python has seen: name, overload."},
    {"begin", py_begin, METH_VARARGS, "The order and the changed nodes of a step, and its number."},
    {"set_state", py_set_state, METH_VARARGS, "Recording, many threads, revision of plans."},
    {"set_cursor", py_set_cursor, METH_O, "The address of the row memory's cursor."},
    {"end_step", py_end_step, METH_NOARGS, "Moments, and records that copy others, as bytes."},
    {"add_lane", py_add_lane, METH_VARARGS, "A device that rows are asked of."},
    {"launch_all", py_launch_all, METH_NOARGS, "Enqueue every row that waits for company."},
    {"note_write", py_note_write, METH_O, "A tensor is about to be written to."},
    {"key", py_key, METH_O, "What a tensor is known by."},
    {"counts", py_counts, METH_NOARGS, "Calls handled here, and calls left to Python."},
    {"claim_key", py_claim_key, METH_NOARGS, "Whether operators can reach us by a dispatch key."},
    {"watch_thread", py_watch_thread, METH_O, "Let this thread's operators reach us by that key."},
    {"install", install, METH_NOARGS, "Take over dispatch to modes."},
    {"remove", remove, METH_NOARGS, "Give dispatch back."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "opscope_hook", nullptr, -1, methods,
                      nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace opscope

PyMODINIT_FUNC PyInit_opscope_hook() {
  PyObject* module = PyModule_Create(&opscope::module);
  if (module == nullptr || PyModule_AddType(module, &opscope::KnownType) < 0) return nullptr;
  return module;
}
