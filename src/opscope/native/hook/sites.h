// Where inputs come from, and which call site a call is of.
#pragma once

#include <Python.h>

#include <c10/core/GradMode.h>

#include <algorithm>

#include "autograd.h"
#include "call.h"
#include "frames.h"
#include "state.h"

namespace opscope {

constexpr size_t kCodesRemembered = size_t{1} << 17, kSitesRemembered = size_t{1} << 18;

inline Ref key_of(const c10::TensorImpl* tensor) {
  return checked(PyLong_FromVoidPtr(const_cast<c10::TensorImpl*>(tensor)));
}

inline KnownMap& known() { return *hook->known; }

// Where a tensor comes from that no operator of this step has made; borrowed.
inline Maker outside_source(const at::TensorBase& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  Ref key = key_of(impl);
  PyObject* named = PyDict_GetItemWithError(hook->by_id.get(), key.get());
  if (named == nullptr && PyErr_Occurred()) throw PythonError();
  if (named == nullptr && impl->pyobj_slot()->load_pyobj() != nullptr) {
    NotWatched not_watched;  // it may be a parameter that nobody has named yet
    checked(PyObject_CallOneArg(hook->outside.get(), python_of(tensor).get()));
    if (const Maker maker = known().get(impl); maker.source != nullptr) return maker;
    throw std::runtime_error("a tensor from outside was not noted");
  }
  known().put_outside(impl, named != nullptr ? named : hook->unknown.get());
  return known().get(impl);
}

inline Maker source_of(const at::TensorBase& tensor) {  // borrowed
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (const Maker maker = known().get(impl); maker.source != nullptr) return maker;
  if (const Maker maker = known().put_twin(impl); maker.source != nullptr) return maker;
  return outside_source(tensor);
}

inline bool is_output(PyObject* source) { return Py_IS_TYPE(source, hook->output_type); }

inline PyObject* subject_of(PyObject* source) {
  return is_output(source) ? hook->output_subject.get(source) : PyTuple_GET_ITEM(source, 2);
}

// Of a source from outside: "parameter", "buffer", "state", "batch" or "outside".
inline const char* kind_of(PyObject* source) {
  const char* kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(source, 0));
  if (kind == nullptr) throw PythonError();
  return kind;
}

inline bool lasts(PyObject* source) {
  if (is_output(source)) return true;
  const char* kind = kind_of(source);
  return kind[0] == 'p' || kind[0] == 's' || (kind[0] == 'b' && kind[1] == 'u');
}


inline Code kind_of_code(PyObject* code) {
  if (const Code* found = hook->known_codes.find(code)) return *found;
  Ref name = checked(PyObject_GetAttrString(code, "co_filename"));
  const auto says = [&name](const Ref& function) {
    return checked(PyObject_CallOneArg(function.get(), name.get())).get() == Py_True;
  };
  const Code kind = says(hook->compiled_file) ? Code::kCompiled
                    : says(hook->user_file)    ? Code::kUser
                                               : Code::kOther;
  if (hook->known_codes.size() >= kCodesRemembered) {
    hook->known_codes.clear();
    hook->codes.clear();
  }
  hook->codes.push_back(Ref::share(code));
  return hook->known_codes[code] = kind;
}

// The innermost frame of the user's code, or the outermost of all if there is none.
inline Frame user_frame(Frame at) {
  while (kind_of_code(at.code()) != Code::kUser) {
    Frame back = at.back();
    if (!back) break;
    at = std::move(back);
  }
  return at;
}

inline Ref number(long value) { return checked(PyLong_FromLong(value)); }
inline Ref address(const void* pointer) { return checked(PyLong_FromVoidPtr(const_cast<void*>(pointer))); }

// The key of a site as capture/eager.py makes it.
inline Ref python_key(const Operator& op, const SiteKey& key, PyObject* scope, PyObject* subject) {
  if (key.phase == kBackward) return checked(PyTuple_Pack(2, op.object.get(), subject));
  Ref code = address(key.code), lasti = number(key.lasti);
  if (key.phase == kOptimizer) {
    return checked(
        PyTuple_Pack(5, op.object.get(), scope, code.get(), lasti.get(), subject));
  }
  Ref phase = number(2 * key.phase + key.with_grad), user = address(key.user), user_lasti = number(key.user_lasti),
      caller_lasti = number(key.caller_lasti);
  return checked(PyTuple_Pack(9, op.object.get(), scope, phase.get(), code.get(), lasti.get(),
                              user.get(), user_lasti.get(), caller_lasti.get(), subject));
}

inline PyObject* thread_state() {
  Thread& thread = here();
  if (thread.generation != hook->generation) {
    Ref found = checked(PyObject_GetAttrString(hook->local.get(), "state"));
    thread.state = found.get();
    thread.generation = hook->generation;
  }
  return thread.state;
}

inline NodeFacts& facts_of(PyObject* node) {
  const auto id = hook->node_id.number(node);
  auto& facts = hook->facts;
  if (static_cast<size_t>(id) >= facts.size()) facts.resize(static_cast<size_t>(id) + 1);
  NodeFacts& found = facts[static_cast<size_t>(id)];
  found.node = node;
  found.id = id;
  return found;
}

inline void read_anew(NodeFacts& facts) {
  const auto copy = [](PyObject* list, auto& to) {
    to.clear();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) to.push_back(PyList_GET_ITEM(list, i));
  };
  copy(hook->node_sources.get(facts.node), facts.sources);
  copy(hook->node_outputs.get(facts.node), facts.outputs);
  facts.raised = hook->node_raised.truth(facts.node);
  facts.varied = hook->node_variant.number(facts.node) < 0;
  facts.current = true;
}

// Has so many bytes brought from memory, to be written to; some at most.
inline void prefetch(const void* from, size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  for (size_t line = 0; line < std::min<size_t>(bytes, 512); line += 64) {
    __builtin_prefetch(at + line, 1);
  }
}

struct Found {
  SiteKey key;
  Ref subject;
  Pass pass;
  PyObject* site = nullptr;
  int64_t at = 0;              // where the marks of the site are
  NodeFacts* first = nullptr;  // of its first node
  bool leaves_eval = false;
};

// The site with this key, if it was found before. Most of the time it is the one that came after the
// last one in the step before, and is in the cache by now.
inline const FoundSite* find_again(const SiteKey& key) {
  FoundSite* last = hook->last_site;
  FoundSite* site = last != nullptr ? last->next : nullptr;
  if (site == nullptr || !(site->key == key)) {
    FoundSite** found = hook->site_of_key.find(key);
    if (found == nullptr) return nullptr;
    site = *found;
    if (last != nullptr) last->next = site;
  }
  hook->last_site = site;
  prefetch(site->next, sizeof(FoundSite));
  return site;
}

inline void remember(const SiteKey& key, const Found& found) {
  if (hook->site_of_key.size() >= kSitesRemembered) {
    hook->last_site = nullptr;
    hook->site_of_key.clear();
    hook->found_sites.clear();
  }
  hook->found_sites.push_back(FoundSite{key, found.site, found.at, found.first,
                                        Ref::share(found.subject.get()), nullptr});
  hook->site_of_key[key] = &hook->found_sites.back();
}

// Has what the next call will need brought from memory while the operator runs.
inline void prefetch_next() {
  const FoundSite* next = hook->last_site != nullptr ? hook->last_site->next : nullptr;
  if (next == nullptr) return;
  prefetch(next->first, sizeof(NodeFacts));
  prefetch(next->key.op, 2 * 64);
}

// The same of what these refer to, when they have come.
inline void prefetch_parts_of_next() {
  const FoundSite* next = hook->last_site != nullptr ? hook->last_site->next : nullptr;
  if (next == nullptr) return;
  const NodeFacts& facts = *next->first;
  __builtin_prefetch(hook->marks + next->at, 1);
  __builtin_prefetch(facts.node, 1);
  for (const PyObject* output : facts.outputs) prefetch(output, 2 * 64);
  for (const PyObject* source : facts.sources) __builtin_prefetch(source, 1);
  prefetch(facts.output_rows.data(), sizeof(Seen) * facts.output_rows.size());
  const auto id = static_cast<size_t>(facts.id);
  if (id < hook->latest.size()) __builtin_prefetch(&hook->latest[id], 1);
  const int64_t* cursor = hook->rows.cursor;
  if (cursor != nullptr && cursor[kNext] < cursor[kEnd]) {
    const auto* record = reinterpret_cast<const char*>(cursor[kAddress] + cursor[kNext]);
    prefetch(record, 2 * kRecordBytes);
  }
}

// The pass whose forward made an autograd node in a thread: see capture/passes.py.
inline Pass pass_of_number(PyObject* state, int64_t number) {
  PyObject* starts = hook->pass_starts.get(state);
  const auto at = [starts](Py_ssize_t i) { return PyLong_AsLongLong(PyList_GET_ITEM(starts, i)); };
  const Py_ssize_t count = PyList_GET_SIZE(starts);
  for (Py_ssize_t i = count - 3; i >= 0; i -= 3) {
    if (at(i + 1) < hook->first_serial) break;
    if (at(i) <= number) return {at(i + 1), at(i + 2)};
  }
  if (count != 0 && at(count - 2) >= hook->first_serial) return {hook->first_serial, 0};
  return hook->training;
}

// The forward node or the parameter whose gradient is computed; false if Python must find out.
inline bool find_origin(PyObject* state, Found& found) {
  const GradNode current = current_grad_node();
  found.pass = hook->training;
  if (!current.there) {
    found.subject = Ref::share(Py_None);
    return true;
  }
  if (current.accumulates) {
    if (current.leaf == nullptr) return false;
    Ref key = key_of(current.leaf);
    PyObject* leaf = PyDict_GetItemWithError(hook->by_id.get(), key.get());
    if (leaf == nullptr) return false;
    found.subject = Ref::share(leaf);
    return true;
  }
  PyObject* home = hook->home.get(state);
  if (home == Py_None) return false;
  if (home != state && PyList_GET_SIZE(hook->node_of_number.get(state)) != 0) return false;
  PyObject* nodes = hook->node_of_number.get(home);
  const int64_t index = static_cast<int64_t>(current.sequence) - hook->number_base.number(home);
  if (index < 0 || index >= PyList_GET_SIZE(nodes)) return false;
  found.subject = Ref::share(PyList_GET_ITEM(nodes, index));
  found.pass = pass_of_number(home, static_cast<int64_t>(current.sequence));
  return true;
}

// The parameter an optimizer's operator is about, or all of them; false if Python must find out.
inline bool find_subject(const Call& call, Found& found) {
  if (call.sources.empty()) {
    found.subject = Ref::share(Py_None);
    return true;
  }
  PyObject* first = subject_of(call.sources[0].source);
  if (!call.op->nested && PyUnicode_GET_LENGTH(first) != 0) {
    found.subject = Ref::share(first);
    return true;
  }
  Ref all = checked(PyList_New(0));
  bool differ = false;
  for (const Maker& maker : call.sources) {
    PyObject* subject = subject_of(maker.source);
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

// Whether a value is a parameter, a gradient, or was made of them after forward.
inline bool is_updated(PyObject* source) {
  if (PyUnicode_GET_LENGTH(subject_of(source)) != 0) return true;
  if (!is_output(source)) return false;
  PyObject* phase = hook->node_phase.get(hook->output_node.get(source));
  return phase == hook->backward_phase.get() || phase == hook->optimizer_phase.get();
}

// Whether an operator after backward works on gradients or parameters; as in capture/watching.py.
inline bool updates(const Call& call) {
  const auto& sources = call.sources;
  if (c10::GradMode::is_enabled()) {
    return call.op->writes && !sources.empty() && is_updated(sources[0].source);
  }
  return std::any_of(sources.begin(), sources.end(),
                     [](const auto& each) { return is_updated(each.source); });
}

// Which call site this is; false if Python must find out.
inline bool find_site(PyObject* state, const Call& call, const Frame& frame, Found& found) {
  int phase = static_cast<int>(hook->phase.number(state));
  PyObject* scope = hook->scope.get(state);
  SiteKey& key = found.key;
  key = SiteKey{call.op, nullptr, nullptr, nullptr, nullptr, 0, 0, 0, 0, false};
  PyObject* code = frame ? frame.code() : nullptr;
  if (code == nullptr || code == hook->engine_code.get()) {
    phase = kBackward;
    if (!find_origin(state, found)) return false;
  } else {
    if (phase >= kEval || hook->backward_depth.number(state) != 0) {
      if (phase != kOptimizer && phase != kData) {
        if (hook->backward_depth.number(state) != 0) return false;
        if (phase == kEval) {
          found.leaves_eval =
              hook->depth.number(state) == 0 && c10::GradMode::is_enabled();
          if (found.leaves_eval) phase = kForward;
        } else if (phase == kAfterBackward) {
          phase = hook->depth.number(state) == 0 && updates(call) ? kOptimizer : kForward;
        }
      }
    }
    key.scope = scope;
    key.code = code;
    key.lasti = frame.lasti();
    if (phase == kOptimizer) {
      if (!find_subject(call, found)) return false;
    } else {
      found.subject = Ref::share(Py_None);
      key.with_grad = c10::GradMode::is_enabled();
      Frame user = user_frame(frame);
      key.user = user.code();
      key.user_lasti = user.lasti();
      if (hook->depth.number(state) != 0) {
        // In a module, a helper called from two lines is two places.
        const Frame caller = user.back();
        key.caller_lasti = caller ? caller.lasti() : 0;
      }
    }
  }
  if (phase != kBackward) found.pass = phase == kEval ? hook->evaluation : hook->training;
  key.phase = phase;
  key.subject = found.subject.get();
  const bool stable = !PyTuple_CheckExact(found.subject.get());  // a tuple is a new one each time
  if (stable) {
    if (const FoundSite* known = find_again(key)) {
      found.site = known->site;
      found.at = known->at;
      found.first = known->first;
      return true;
    }
  }
  Ref object = python_key(*call.op, key, scope, found.subject.get());
  found.site = PyDict_GetItemWithError(hook->sites.get(), object.get());
  if (found.site == nullptr) return false;
  found.at = hook->site_at.number(found.site);
  found.first = &facts_of(hook->site_first.get(found.site));
  if (stable) remember(key, found);
  return true;
}

}  // namespace opscope
