// What torch calls before and after every operator: one record for each that the program calls.
//
// What torch's own operators run inside is not looked at; what others do leaves its name in their
// record.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/function.h>

#include <atomic>
#include <memory>

#include "collectives.h"
#include "watcher.h"

namespace opscope {

// Where an operator of the forward pass ran, by the number autograd gives to what it makes.
struct Forward {
  int64_t number = -1;
  uint64_t thread = 0;
  uint32_t scope = 0, site = 0;
};
constexpr size_t kForwards = 1 << 15;
constexpr int64_t kNear = 16;  // so many nodes of autograd one call may make

inline Forward* forwards() {
  static auto* all = new Forward[kForwards];
  return all;
}

// Autograd's engine tells of each of its nodes as if that were an operator, by this and their name.
constexpr std::string_view kOfEngine = "autograd::engine::evaluate_function: ";

inline Told told_as(const char* name) {
  if (std::strncmp(name, kOfEngine.data(), kOfEngine.size()) == 0) return Told::kEngine;
  return std::strstr(name, "::") != nullptr ? Told::kOperator : Told::kOther;
}

inline Called learn(const char* name) {
  const Told as = told_as(name);
  if (as != Told::kOperator) return {0, as};
  return {names().number_of(kNameOperator, name), as, is_of_torch(name), is_collective(name),
          Withdrawals::count()};
}

inline Called called(Watcher& watcher, const at::RecordFunction& fn) {
  const c10::FunctionSchema* schema = schema_of(fn);
  if (schema == nullptr) return learn(fn.name());
  Called& known = watcher.operators[schema];
  if (known.withdrawals != Withdrawals::count()) known = learn(fn.name());
  return known;
}

// The number of a name that autograd makes anew for each call.
inline uint32_t text_number(Watcher& watcher, const char* name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char* at = name; *at != 0; ++at) {
    hash = (hash ^ static_cast<unsigned char>(*at)) * 0x100000001b3u;
  }
  uint32_t& known = watcher.texts[hash];
  if (known == 0) known = names().number_of(kNameOperator, name);
  return known;
}

// The tensors that an operator is given, of a list only the first.
struct Given {
  const at::Tensor* first = nullptr;
  bool subclass = false;  // whether any has an operator written in Python

  explicit Given(c10::ArrayRef<const c10::IValue> values) {
    for (const c10::IValue& value : values) {
      if (value.isTensor()) {
        add(value.toTensor());
      } else if (value.isList()) {  // the kind of list takes longer to ask for than to see
        const auto list = value.toListRef();
        if (!list.empty() && list[0].isTensor()) add(list[0].toTensor());
      }
    }
  }

 private:
  void add(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (first == nullptr) first = &tensor;
    subclass = subclass || tensor.key_set().has(c10::DispatchKey::Python);
  }
};

inline void describe(Record& record, const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  record.dtype = static_cast<uint8_t>(tensor.scalar_type());
  const at::Device device = tensor.device();
  record.device = static_cast<uint8_t>(device.type());
  record.device_index = device.index();
  if (impl->layout() != c10::kStrided || impl->is_python_dispatch()) {
    return;  // sizes may run code of others
  }
  record.numel = static_cast<uint64_t>(impl->sym_numel().is_heap_allocated() ? 0 : impl->numel());
  if (impl->has_storage() && impl->storage()) {
    record.address = reinterpret_cast<uint64_t>(impl->unsafe_storage().data());
    record.bytes = impl->unsafe_storage().sym_nbytes().is_heap_allocated()
                       ? 0
                       : impl->unsafe_storage().nbytes();
  }
  if (device.type() == c10::kCUDA || device.type() == c10::kXPU) {
    const auto* guard = c10::impl::device_guard_impl_registry[static_cast<size_t>(device.type())].load();
    if (guard != nullptr) record.stream = static_cast<uint16_t>(guard->getStream(device).id());
  }
}

// The engine comes to a node: where the operator ran that had it made.
inline Backward backward_of(Watcher& watcher, const char* name) {
  Backward found{text_number(watcher, name + kOfEngine.size()), 0, 0};
  const auto node = torch::autograd::get_current_node();
  if (!node) return found;
  const auto number = static_cast<int64_t>(node->sequence_nr());
  for (int64_t back = 0; number >= back && back < kNear; ++back) {
    const Forward& forward = forwards()[static_cast<size_t>(number - back) % kForwards];
    if (forward.number != number - back || forward.thread != node->thread_id()) continue;
    found.scope = forward.scope;
    found.site = forward.site;
    break;
  }
  return found;
}

inline void expect_transports();

// Has the next record brought from memory while the operator runs.
inline void prefetch(const Record& record) {
  const auto* bytes = reinterpret_cast<const char*>(&record);
  for (size_t line = 0; line < sizeof record; line += 64) __builtin_prefetch(bytes + line, 1);
}

inline void begin(Watcher& watcher, const at::RecordFunction& fn, const Called& name,
                  const Given& given) {
  const uint64_t sequence = ring.field(kHeadField).fetch_add(1, std::memory_order_relaxed) + 1;
  Record& record = ring.records[(sequence - 1) & ring.mask];
  record.sequence.store(0, std::memory_order_relaxed);
  std::memset(reinterpret_cast<char*>(&record) + 8, 0, sizeof record - 8);
  record.op = name.number;
  record.thread = watcher.thread;
  record.step = static_cast<int32_t>(ring.field(kStepField).load(std::memory_order_relaxed));
  record.phase = watcher.phase;
  record.scope = watcher.scope;
  if (watcher.backward_depth != 0) {
    record.phase = kBackward;
    record.autograd = watcher.backward.name;
    record.scope = watcher.backward.scope;
    record.site = watcher.backward.site;
  } else if (!watcher.shared) {
    record.site = watcher.sites.current();
    const int64_t number = fn.seqNr();
    if (number >= 0) {
      forwards()[static_cast<size_t>(number) % kForwards] = {
          number, at::RecordFunction::currentThreadId(), record.scope, record.site};
    }
  }
  if (given.first != nullptr) describe(record, *given.first);
  if (name.collective) {
    describe_collective(record, fn.inputs());
    if (record.device == 0 && is_waited_for(fn.name())) {
      record.flags |= kWaits;
      expect_transports();
      waiting().add({fn.name(), &record, sequence});
    }
  }
  watcher.record = &record;
  watcher.sequence = sequence;
  watcher.exceptions_before = watcher.exceptions->under_way;
  record.start = watcher.clock.now();
  record.sequence.store(sequence, std::memory_order_release);
  prefetch(ring.records[sequence & ring.mask]);
}

// Whether a mode, or a hook that packs what autograd saves, may run any Python inside an operator:
// collectives, for one.
inline bool may_run_python() {
  return c10::impl::TorchDispatchModeTLS::any_modes_set() ||
         !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
}

// An operator begins, or what torch tells of as if it were one. True if what it does inside is its
// own affair, which nobody has to be told.
inline bool started(Watcher& watcher, const at::RecordFunction& fn) {
  if (!ring.active.load(std::memory_order_relaxed)) return false;
  const Called name = called(watcher, fn);
  if (watcher.depth != 0) {
    ++watcher.depth;
    Record* record = watcher.record;
    if (record != nullptr && record->sequence == watcher.sequence && name.as == Told::kOperator) {
      record->inner = name.number;
    }
  } else if (name.as == Told::kOperator) {
    ++watcher.depth;
    const Given given(fn.inputs());
    if (watcher.muted == 0) begin(watcher, fn, name, given);
    const bool own_affair =
        !watcher.shared && name.of_torch && !given.subclass && !may_run_python();
    if (own_affair) watcher.held.hold(fn.inputs());
    return own_affair;
  } else if (name.as == Told::kEngine) {
    ++watcher.backward_depth;
    watcher.backward = watcher.shared ? Backward() : backward_of(watcher, fn.name());
  }
  return false;
}

inline void finish(Watcher& watcher, Record* record, uint64_t sequence) {
  if (record != nullptr && record->sequence.load(std::memory_order_relaxed) == sequence) {
    record->end = watcher.clock.now();
  }
}

// The line of the operator under way, which nobody else tells.
inline void note_line(Watcher& watcher) {
  Record* record = watcher.record;
  if (record == nullptr || record->sequence != watcher.sequence) return;
  if (record->node == 0 && record->site == 0 && watcher.backward_depth == 0) {
    record->site = watcher.sites.current();
  }
}

inline void ended(Watcher& watcher, const at::RecordFunction& fn) {
  if (watcher.depth <= 1) watcher.held.let_go();
  if (!ring.active.load(std::memory_order_relaxed)) return;
  if (watcher.depth == 0) {  // no operator, or one that was under way before something began anew
    const bool engine = watcher.backward_depth > 0 && told_as(fn.name()) == Told::kEngine;
    if (engine) --watcher.backward_depth;
    return;
  }
  if (--watcher.depth != 0) return;
  note_line(watcher);
  Record* record = watcher.record;
  watcher.record = nullptr;
  if (record == nullptr || record->sequence != watcher.sequence) return;
  if (watcher.exceptions->under_way > watcher.exceptions_before) record->flags |= kRaised;
  if (!(record->flags & kWaits) || record->flags & kRaised) finish(watcher, record, watcher.sequence);
}

inline std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& fn);
inline void end(const at::RecordFunction& fn, at::ObserverContext* context);
constexpr Insides::Callbacks kCallbacks{&start, &end};

inline std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& fn) {
  Watcher& watcher = here();
  if (started(watcher, fn)) watcher.insides.ignore(fn, kCallbacks);
  return nullptr;
}

inline void end(const at::RecordFunction& fn, at::ObserverContext*) {
  Watcher& watcher = here();
  watcher.insides.leave(fn, kCallbacks);
  ended(watcher, fn);
}

inline std::unique_ptr<at::ObserverContext> transport_began(const at::RecordFunction& fn) {
  return is_transport(fn.name()) ? waiting().take(fn.name()) : nullptr;
}

inline void transport_ended(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr || !ring.active.load(std::memory_order_relaxed)) return;
  const auto& transport = *static_cast<Transport*>(context);
  finish(here(), transport.record, transport.sequence);
}

// What torch is to tell of.
class Listening {
 public:
  // Operators, unless the capture's observer tells of them, and transports once there are any.
  void set(bool on, bool shared) {
    const std::lock_guard<std::mutex> lock(mutex_);
    on_ = on;
    drop(operators_);
    drop(transports_);
    if (on && !shared) {
      at::RecordFunctionCallback callback(&start, &end);
      callback.needsInputs(true).scopes({at::RecordScope::FUNCTION});
      operators_ = at::addGlobalCallback(callback);
    }
    add_transports();
  }
  // A collective is about to run. Most programs have none, and each thing that torch is to tell of
  // costs them time wherever autograd's engine comes to a node.
  void expect_transports() {
    if (expected_.exchange(true)) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    add_transports();
  }

 private:
  static void drop(at::CallbackHandle& handle) {
    if (handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(handle);
    handle = at::INVALID_CALLBACK_HANDLE;
  }
  void add_transports() {
    if (!on_ || !expected_ || transports_ != at::INVALID_CALLBACK_HANDLE) return;
    at::RecordFunctionCallback callback(&transport_began, &transport_ended);
    transports_ = at::addGlobalCallback(callback.scopes({at::RecordScope::USER_SCOPE}));
  }

  std::mutex mutex_;
  std::atomic<bool> expected_{false};
  bool on_ = false;
  at::CallbackHandle operators_ = at::INVALID_CALLBACK_HANDLE;
  at::CallbackHandle transports_ = at::INVALID_CALLBACK_HANDLE;
};

inline Listening& listening() {
  static auto* all = new Listening();
  return *all;
}

inline void expect_transports() { listening().expect_transports(); }

inline bool& observing() {
  static bool on = false;
  return on;
}

inline void observe(bool on) {
  Withdrawals::watch();
  if (on != observing()) listening().set(observing() = on, epoch.shared);
}

inline void share(bool on) {
  if (on == epoch.shared) return;
  epoch.share(on);
  listening().set(observing(), on);
}

}  // namespace opscope
