// What the recorder knows of each thread: the operators under way there, and names by their numbers.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <cxxabi.h>

#include <atomic>
#include <utility>

#include "generated/schemas.h"
#include "generated/unneeded.h"
#include "ring.h"
#include "sites.h"

namespace opscope {

struct Backward {
  uint32_t name = 0, scope = 0, site = 0;
};

// What an operator is given, for as long as it runs. A tensor that only Python holds takes the
// interpreter's lock whenever C++ begins to hold it too or ceases to, which torch does several times
// within an operator, and once for us; while it is held here it takes it twice in all.
class Held {
 public:
  void hold(c10::ArrayRef<const c10::IValue> values) {
    for (const c10::IValue& value : values) {
      const bool of_python = value.isTensor() && value.toTensor().use_count() == kByPythonAndTorch;
      if (of_python || value.isTensorList()) values_.push_back(value);
    }
  }
  void let_go() { values_.clear(); }

 private:
  static constexpr size_t kByPythonAndTorch = 2;
  c10::SmallVector<c10::IValue, 8> values_;
};

struct NumberHash {
  size_t operator()(uint64_t number) const {
    return static_cast<size_t>(number * 0x9e3779b97f4a7c15u >> 20);
  }
};

// What torch tells of by a name: an operator, a node of autograd's engine, or neither, such as a
// function of the user's whose operators are told of themselves.
enum class Told : uint8_t { kOperator, kEngine, kOther };

struct Called {
  uint32_t number = 0;
  Told as = Told::kOther;
  bool of_torch = false;  // an operator of its own
  bool collective = false;
  uint64_t withdrawals = 0;  // as many as there were when it was learnt
};

// What the C++ ABI keeps per thread of exceptions: asking the library takes two calls each time.
struct Exceptions {
  void* caught;
  unsigned int under_way;

  static const Exceptions* of_this_thread() {
    return reinterpret_cast<const Exceptions*>(abi::__cxa_get_globals());
  }
};

// What is known per thread.
struct Watcher {
  int depth = 0;   // operators under way
  int muted = 0;   // code of ours under way
  int backward_depth = 0;
  uint64_t sequence = 0;  // of the record under way, and the record
  Record* record = nullptr;
  Clock clock;
  const Exceptions* exceptions = Exceptions::of_this_thread();
  unsigned int exceptions_before = 0;  // under way as the operator began
  uint32_t scope = 0;
  uint8_t phase = kSetup;
  uint32_t thread = static_cast<uint32_t>(syscall(SYS_gettid));
  Backward backward;
  uint64_t epoch = 0;       // what was under way before it is nobody's
  uint64_t generation = 0;  // of rings: names of another are void
  bool shared = false;      // whether the capture's observer tells us of operators
  FlatMap<const c10::FunctionSchema*, Called, AddressHash> operators;
  FlatMap<uint64_t, uint32_t, NumberHash> texts;
  Sites sites;
  Insides insides;
  Held held;

  // It serves another thread, whose operators may well be those that it knows.
  void begin_thread() {
    depth = muted = backward_depth = 0;
    record = nullptr;
    exceptions = Exceptions::of_this_thread();
    scope = 0;
    phase = kSetup;
    thread = static_cast<uint32_t>(syscall(SYS_gettid));
    epoch = 0;
    insides = Insides();
  }
};

// What all threads look at before each operator, and what they find out when it has changed.
struct Epoch {
  std::atomic<uint64_t> number{1};
  std::atomic<uint64_t> generation{0};
  std::atomic<bool> shared{false};

  // A ring is opened: names get numbers anew.
  void begin_ring() {
    ++generation;
    ++number;
  }
  // The observer of operators of the capture, which knows lines and scopes, tells us of them.
  void share(bool on) {
    shared = on;
    ++number;
  }
};

inline Epoch epoch;

inline Watcher*& of_this_thread() {
  // The model costs eight bytes of what programs keep for libraries like this, and saves a call.
  static thread_local Watcher* watcher __attribute__((tls_model("initial-exec"))) = nullptr;
  return watcher;
}

// What threads that have ended knew, for those that come: some programs have new ones in each step.
// It is not locked, so that a fork at any moment does no harm.
class SpareWatchers {
 public:
  static Watcher* take() {
    for (auto& each : spare_) {
      Watcher* found = each.exchange(nullptr, std::memory_order_acquire);
      if (found != nullptr) return found->begin_thread(), found;
    }
    return new Watcher();
  }
  // What is destroyed after this may yet compute: it gets another one, which stays.
  static void give_back_when_this_thread_ends() {
    struct AtTheEnd {
      ~AtTheEnd() { give_back(std::exchange(of_this_thread(), nullptr)); }
    };
    static thread_local AtTheEnd registered;
    (void)registered;
  }

 private:
  static void give_back(Watcher* watcher) {
    if (watcher == nullptr) return;
    watcher->held.let_go();
    for (auto& each : spare_) {
      Watcher* nothing = nullptr;
      if (each.compare_exchange_strong(nothing, watcher, std::memory_order_release)) return;
    }
    delete watcher;
  }

  static inline std::atomic<Watcher*> spare_[16];
};

// This thread is new, or something has begun anew.
inline Watcher& renew(Watcher*& watcher) {
  if (watcher == nullptr) {
    watcher = SpareWatchers::take();
    SpareWatchers::give_back_when_this_thread_ends();
  }
  watcher->epoch = epoch.number.load();
  if (watcher->generation != epoch.generation.load()) {
    watcher->operators.clear();
    watcher->texts.clear();
    watcher->sites = Sites();
    watcher->generation = epoch.generation.load();
    watcher->scope = 0;
  }
  watcher->shared = epoch.shared.load();
  watcher->depth = watcher->backward_depth = 0;
  watcher->record = nullptr;
  watcher->held.let_go();
  return *watcher;
}

__attribute__((always_inline)) inline Watcher& here() {
  Watcher*& watcher = of_this_thread();
  const bool holds =
      watcher != nullptr && watcher->epoch == epoch.number.load(std::memory_order_relaxed);
  return holds ? *watcher : renew(watcher);
}

}  // namespace opscope
