// Collectives: of which group, which in turn, and when they are over that go on in a thread of their
// own.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <dlfcn.h>

#include <deque>
#include <memory>

#include "ring.h"

namespace opscope {

inline bool is_collective(const char* name) { return std::strncmp(name, "c10d::", 6) == 0; }

// c10d::ProcessGroup::getGroupName, which is found by its symbol: the header that declares it takes
// longer to compile than all of the recorder. It takes the object as a function takes its argument.
using GroupName = const std::string& (*)(const void*);

inline GroupName group_name() {
  static const auto found = reinterpret_cast<GroupName>(
      dlsym(RTLD_DEFAULT, "_ZNK4c10d12ProcessGroup12getGroupNameB5cxx11Ev"));
  return found;  // null: torch was built without collectives, or it is another one
}

// The group of a collective and its number there, counted alike by all ranks.
inline void describe_collective(Record& record, c10::ArrayRef<const c10::IValue> inputs) {
  static std::mutex mutex;
  static auto* counts = new std::unordered_map<std::string, uint32_t>();
  record.flags |= kCollective;
  for (const c10::IValue& value : inputs) {
    if (group_name() == nullptr || !value.isCustomClass()) continue;
    const auto object = value.toObject();
    if (object->name() != "__torch__.torch.classes.c10d.ProcessGroup") continue;
    const auto holder = object->getSlot(0).toCapsule();
    const std::string& name = group_name()(holder.get());
    const std::lock_guard<std::mutex> lock(mutex);
    record.collective = ++(*counts)[name];
    record.group = static_cast<uint16_t>(names().number_of(kNameGroup, name));
    return;
  }
}

inline bool is_transport(const char* name) {
  for (const char* prefix : {"gloo:", "nccl:", "mpi:", "ucc:", "xccl:"}) {
    if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) return true;
  }
  return false;
}

// A collective on the CPU goes on when its call has returned; a thread of its own does the work, and
// tells of it under another name: c10d::allreduce_ is gloo:all_reduce there.
struct Transport : at::ObserverContext {
  Transport(Record* record, uint64_t sequence) : record(record), sequence(sequence) {}
  Record* record;
  uint64_t sequence;
};

// What both names have in common.
inline std::string_view kind_of_collective(const char* name) {
  const char* after = std::strchr(name, ':');
  std::string plain;
  for (const char* at = after == nullptr ? name : after; *at != 0; ++at) {
    if (*at != '_' && *at != ':') plain += *at;
  }
  for (const std::string_view kind : {"reducescatter", "allreduce", "allgather", "alltoall",
                                      "broadcast", "barrier", "reduce", "gather", "scatter"}) {
    if (plain.find(kind) != std::string::npos) return kind;
  }
  return "";
}

inline bool is_waited_for(const char* name) {
  const std::string_view kind = kind_of_collective(name);
  return !kind.empty() && kind != "reducescatter";
}

class Waiting {
 public:
  struct Entry {
    const char* name;
    Record* record;
    uint64_t sequence;
  };
  void add(Entry entry) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (entries_.size() >= kMost) entries_.pop_front();
    entries_.push_back(entry);
  }
  std::unique_ptr<at::ObserverContext> take(const char* name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (kind_of_collective(at->name) != kind_of_collective(name)) continue;
      auto found = std::make_unique<Transport>(at->record, at->sequence);
      entries_.erase(at);
      return found;
    }
    return nullptr;
  }

 private:
  static constexpr size_t kMost = 4096;
  std::mutex mutex_;
  std::deque<Entry> entries_;
};

inline Waiting& waiting() {
  static auto* all = new Waiting();
  return *all;
}

}  // namespace opscope
