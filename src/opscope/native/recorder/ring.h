// The ring: records, names and markers in memory that a file may stand behind.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "clock.h"
#include "generated/ring_layout.h"

namespace opscope {

struct Record {
  std::atomic<uint64_t> sequence;
  uint64_t start, end;
  uint32_t op, inner, scope, site, node, thread;
  int32_t step;
  uint32_t autograd;
  uint64_t numel, address, bytes;
  uint32_t collective;
  uint16_t group, stream;
  uint8_t dtype, phase, flags, device;
  int8_t device_index;
  uint8_t unused[3];
};
static_assert(sizeof(Record) == kRingRecordBytes);
static_assert(offsetof(Record, numel) == kNumelAt && offsetof(Record, dtype) == kDtypeAt);
static_assert(offsetof(Record, device_index) == kDeviceIndexAt);

struct Marker {
  std::atomic<uint32_t> kind;  // written last
  int32_t process, number, thread;
  uint64_t time, detail;
  char text[32];
};
static_assert(sizeof(Marker) == kRingMarkerBytes);

// Where everything is. Plain data that signal handlers may look at.
struct Ring {
  char* base = nullptr;
  Record* records = nullptr;
  char* names = nullptr;
  uint64_t mask = 0, names_bytes = 0;
  pid_t process = 0;
  std::atomic<bool> active{false};

  std::atomic<uint64_t>& field(int at) const {
    return *reinterpret_cast<std::atomic<uint64_t>*>(base + at);
  }
  void open(char* memory) {
    base = memory;
    const uint64_t slots = field(kSlotsField);
    names_bytes = field(kNamesBytesField);
    names = memory + kRingHeaderBytes;
    records = reinterpret_cast<Record*>(names + names_bytes);
    mask = slots - 1;
    process = getpid();
    field(kPidField) = static_cast<uint64_t>(process);
    active = true;
  }
};

inline Ring ring;

// Notes how the process ends. Async-signal-safe; nothing happens in a forked child.
inline void mark(uint32_t kind, int number, uint64_t detail, const char* text) {
  if (ring.base == nullptr || getpid() != ring.process) return;
  const uint64_t at = ring.field(kMarkerCountField).fetch_add(1);
  if (at >= kRingMostMarkers) return;
  Marker& marker = *reinterpret_cast<Marker*>(ring.base + kRingMarkers + at * kRingMarkerBytes);
  marker.process = ring.process;
  marker.number = number;
  marker.thread = static_cast<int32_t>(syscall(SYS_gettid));
  marker.time = clock_of(CLOCK_REALTIME);
  marker.detail = detail;
  std::strncpy(marker.text, text, sizeof marker.text - 1);
  marker.kind.store(kind, std::memory_order_release);
}

// Names get numbers, from 1 on, and are in the ring before any record has the number.
class Names {
 public:
  uint32_t number_of(uint32_t kind, std::string_view text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& known = known_[kind];
    const auto found = known.find(std::string(text));
    if (found != known.end()) return found->second;
    const auto number = static_cast<uint32_t>(known.size() + 1);
    if (number >= kMostNames || !write(kind, number, text)) return 0;
    known.emplace(text, number);
    return number;
  }
  bool put(uint32_t kind, uint32_t number, std::string_view text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return write(kind, number, text);
  }
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    known_.clear();
  }

 private:
  bool write(uint32_t kind, uint32_t number, std::string_view text) {
    auto& used = ring.field(kNamesUsedField);
    const uint64_t at = used.load();
    if (at + kNameHeadBytes + text.size() > ring.names_bytes) {
      ++ring.field(kNamesLostField);
      return false;
    }
    const uint32_t head[3] = {static_cast<uint32_t>(text.size()), kind, number};
    std::memcpy(ring.names + at, head, sizeof head);
    std::memcpy(ring.names + at + sizeof head, text.data(), text.size());
    used.store(at + sizeof head + text.size(), std::memory_order_release);
    return true;
  }

  std::mutex mutex_;
  std::unordered_map<uint32_t, std::unordered_map<std::string, uint32_t>> known_;
};

inline Names& names() {
  static auto* all = new Names();  // never freed: threads may outlive Python
  return *all;
}

}  // namespace opscope
