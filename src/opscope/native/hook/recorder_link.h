// What the recorder does for the observer of operators, where both run: torch tells the observer of
// every operator, and that tells the recorder.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <cstdint>

namespace opscope {

struct RecorderFunctions {
  void (*share)(bool);  // from here on the next two are called, or not any more
  uint64_t (*started)(const at::RecordFunction&);  // when that was, if it has a record
  void (*ended)(const at::RecordFunction&);
  void (*note_node)(int64_t);  // of the operator under way
  void (*note_line)();         // the operator under way will have no node
  void (*mute)(int);
};

struct RecorderLink {
  const RecorderFunctions* functions = nullptr;  // null: no recorder
  std::atomic<bool> shares{false};
};

inline RecorderLink& recorder() {
  static RecorderLink link;
  return link;
}

// A recorder that finds lines and scopes itself has an observer of its own: while capture records,
// which knows both, one observer is enough.
inline void share_with_recorder(bool on) {
  RecorderLink& link = recorder();
  if (link.functions == nullptr || link.shares == on) return;
  link.shares = on;
  link.functions->share(on);
}

inline bool shares_with_recorder() { return recorder().shares.load(std::memory_order_relaxed); }

inline void mute_recorder(int by) {
  if (recorder().functions != nullptr) recorder().functions->mute(by);
}

inline void tell_recorder(int64_t node) {
  if (shares_with_recorder()) recorder().functions->note_node(node);
}

}  // namespace opscope
