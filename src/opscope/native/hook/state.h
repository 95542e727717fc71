// What the hook knows: operators, call sites, and where Python keeps things.
#pragma once

#include <Python.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "recorder_link.h"
#include "flat_map.h"
#include "generated/capture.h"
#include "known.h"
#include "python_objects.h"
#include "rows.h"
#include "simple_tensors.h"
#include "unneeded.h"

namespace opscope {

using Arguments = c10::ArrayRef<const c10::IValue>;

constexpr int kValues = kInputValues | kOutputValues | kParameters;

// What is known of an operator; made when it is first seen and never let go.
struct alignas(64) Operator {
  explicit Operator(const c10::OperatorHandle& of) : handle(of) {}
  c10::OperatorHandle handle;
  Ref object;  // its opscope.capture.operators.Operator
  Kind kind = kGeneral;
  bool returns_written = false;  // what it returns is what it has written to, in that order
  bool ignored = true, nested = false, writes = false, view = false, same_elements = false,
       converts = false, fills = false, asynchronous = false, fresh = false, only_python = false,
       of_torch = false, with_autograd = false;
  size_t returns = 0;
  c10::SmallVector<uint8_t, 16> shapes;  // per argument: 0 no tensor, 1 a tensor, 2 tensors in a list
  c10::SmallVector<uint8_t, 16> mutated;
  c10::DispatchKeySet casting;  // the keys of autocast that it has kernels of its own for
  // Per kind of tensor: 0 not asked yet, 1 an operator of its own, 2 made of others.
  mutable std::array<int8_t, static_cast<size_t>(c10::DispatchKey::EndOfRuntimeBackendKeys) + 1>
      composite{};
};

struct SiteKey {
  const void* op;
  const void* scope;
  const void* code;
  const void* user;
  const void* subject;
  int phase, lasti, user_lasti, caller_lasti;
  bool with_grad;  // where that makes a difference
  bool operator==(const SiteKey& other) const {
    return op == other.op && scope == other.scope && code == other.code && user == other.user &&
           subject == other.subject && phase == other.phase && with_grad == other.with_grad && lasti == other.lasti &&
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
    mix(static_cast<uint64_t>(key.caller_lasti) << 32 |
        static_cast<uint32_t>(2 * key.phase + key.with_grad));
    return hash;
  }
};

// Whose code it is: the user's, that of torch and such, or what belongs to compiled code.
enum class Code : uint8_t { kOther, kUser, kCompiled };

// A pass: a serial number unlike that of any other, and its number in the step.
struct Pass {
  int64_t serial = 0, number = 0;
};

// What the Python object of a node says, in one place: there it is spread over a dozen objects, each
// of which has to come from memory. Python changes them only when it is told of a call of the node.
struct alignas(64) NodeFacts {
  PyObject* node = nullptr;  // kept alive by capture
  int64_t id = 0;
  bool current = false;  // otherwise what follows is to be read anew
  bool raised = false;
  bool varied = false;  // its sources are no variant of those that are kept
  c10::SmallVector<PyObject*, 4> sources;  // kept alive by the node
  c10::SmallVector<PyObject*, 2> outputs;
  int64_t flags = 0, revision = -1;  // of its plan
  std::vector<Seen> output_rows, input_rows;  // by slot; they outlive a step for their kinds
};

// A call site that has been found by its key.
struct alignas(64) FoundSite {
  SiteKey key;
  PyObject* site;    // kept alive by `sites`
  int64_t at;        // where its marks are
  NodeFacts* first;  // of its first node
  Ref subject;       // its address is part of the key
  FoundSite* next;   // the one that was found after it, last time
};

struct Hook {
  Ref local, sites, late, by_id, engine_code, user_file, compiled_file, outside, unknown, plan_for,
      add_outputs, begin_call, end_call, before_write, report, begin, finish, forward_begins,
      new_operator, note_arguments, hand_over, backward_phase, optimizer_phase;
  Ref known_object, order, renewed, passes, further;
  Ref alarm;  // told of outputs with NaN or Inf; None if nobody minds
  bool alarmed = false;
  KnownMap* known = nullptr;  // in `known_object`
  Slot admitted, home, scope, phase, depth, backward_depth, last_number, number_base,
      node_of_number, pass_starts;
  Slot site_at, site_first, site_more;
  Slot node_id, node_outputs, node_sources, node_variants, node_variant, node_raised, node_plan,
      node_phase;
  Slot output_node, output_slot, output_subject, output_uninitialised;
  Slot plan_flags, plan_revision;
  Slot begun_node, begun_index;
  PyTypeObject* output_type = nullptr;
  uint64_t generation = 0;  // of captures: what threads remember of another is void
  uint64_t resumption = 0;  // of recording: autograd's numbers of before are nobody's
  bool recording = false, only_python = false;
  long revision = -1, step = -1;
  Pass training, evaluation;   // that are under way
  int64_t first_serial = 0;    // of the step, in training
  int64_t last_pass = 0;       // of the call before
  std::vector<int64_t> latest;  // by node: the call of it that began last, counted from `base`
  int64_t base = 0;             // more than any call before this step
  bool repeats = false;         // whether a node was called twice in this step
  std::vector<int64_t> changes, crossings;  // see opscope/calls.py
  int64_t real_time = 0;  // ns that the clock of the day is ahead of the one that only goes on
  int64_t further_size = 0;     // how many sources there are in `further`
  int64_t* marks = nullptr;     // of call sites: see capture/thread_state.py
  std::deque<NodeFacts> facts;  // by node
  std::deque<FoundSite> found_sites;
  FlatMap<SiteKey, FoundSite*, SiteHash> site_of_key;
  FoundSite* last_site = nullptr;
  FlatMap<PyObject*, Code, AddressHash> known_codes;
  std::vector<Ref> codes;  // kept alive: their addresses are keys
  FlatMap<const void*, bool, AddressHash> held;  // memory that Python wants to copy before a write
  RowBook rows;
  int64_t native_calls = 0, python_calls = 0;
};

inline Hook* hook = nullptr;

// Numbers that are never given twice in a process: for captures, and for when one resumes.
inline uint64_t next_number() {
  static uint64_t last = 0;
  return ++last;
}

struct Call;
struct NamedOperators;

// What the hook keeps per thread.
struct Thread {
  int depth = 0;  // operators under way whose insides are their own affair
  int muted = 0;  // code of ours under way
  Call* call = nullptr;  // the one under way that is being watched
  Arguments arguments;   // of that one, while Python is told of it
  PyObject* state = nullptr;  // kept alive by the thread's own dictionary
  uint64_t generation = 0;    // of the capture that it belongs to
  uint64_t resumption = 0;    // since when autograd's numbers are known
  NamedOperators* operators = nullptr;
  int64_t told = 0;  // of so many calls, by torch
  uint64_t began = 0;  // when the operator under way did, as the recorder has noted it; or 0
  Insides insides;
  enum class Keeping : uint8_t { kNotYet, kNow, kNoLonger };
  Keeping keeping = Keeping::kNotYet;
  uint8_t spare_count = 0;
  void* spare[16] = {};  // memory of calls that are over
};

inline Thread& here() {
  // The model takes some of what programs keep for libraries like this, and saves a call each time.
  static thread_local Thread thread __attribute__((tls_model("initial-exec")));
  return thread;
}

// Above the operators themselves: modes, subclasses, torch.func, autocast, autograd.
const c10::DispatchKeySet kAbove =
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                         c10::DispatchKey::PreDispatch, c10::DispatchKey::FuncTorchVmapMode,
                         c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                         c10::DispatchKey::FuncTorchDynamicLayerBackMode}) |
    c10::autocast_dispatch_keyset | c10::autograd_dispatch_keyset_with_ADInplaceOrView;

const c10::DispatchKeySet kAboveAutograd =
    kAbove - c10::autograd_dispatch_keyset_with_ADInplaceOrView;

// Code of ours inside: it reaches nothing of the user's, makes no gradients, and is not watched. The
// interpreter lock is held at both ends.
class NotWatched {
 public:
  explicit NotWatched(c10::DispatchKeySet above = kAbove) : above_(above) {
    ++here().muted;
    mute_recorder(1);
  }
  ~NotWatched() {
    if (collects_) PyGC_Enable();
    --here().muted;
    mute_recorder(-1);
  }
  NotWatched(const NotWatched&) = delete;
  NotWatched& operator=(const NotWatched&) = delete;

 private:
  c10::impl::ExcludeDispatchKeyGuard above_;
  WithoutFunctions functions_;
  // What Python's collector finalizes is the user's, who may compute with tensors there: it waits.
  int collects_ = PyGC_Disable();
};

}  // namespace opscope
