// What the hook knows: operators, call sites, and where Python keeps things.
#pragma once

#include <Python.h>

#include <ATen/core/ivalue.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <memory>
#include <vector>

#include "flat_map.h"
#include "known.h"
#include "python_objects.h"
#include "rows.h"

namespace opscope {

using Arguments = std::vector<c10::IValue>;

// As in capture/thread_state.py and capture/operators.py.
enum Phase { kSetup, kForward, kBackward, kOptimizer, kEval, kTail };
enum Kind { kNew, kSeveral, kView, kWrite, kNothing, kGeneral };
enum Want { kInputStats = 1, kOutputStats = 2, kInputValues = 4, kOutputValues = 8,
            kOutsideStats = 16, kParameters = 32 };
constexpr int kValues = kInputValues | kOutputValues | kParameters;
constexpr int kArguments = 64;

struct Operator {
  Ref object;
  Kind kind;
  bool ignored, nested, writes, view, same_elements, converts, fills, only_python;
  std::vector<uint8_t> shapes;  // per argument: 0 no tensor, 1 a tensor, 2 tensors in a list
  std::vector<uint8_t> mutated;
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

inline Hook* hook = nullptr;

// Tensor code inside reaches no dispatch mode.
class Quiet {
 public:
  Quiet()
      : modes_(c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PreDispatch})),
        snapshot_(c10::DispatchKey::PythonTLSSnapshot) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard modes_, snapshot_;
};

}  // namespace opscope
