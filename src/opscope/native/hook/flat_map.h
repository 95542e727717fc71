// A hash map in one piece of memory: no allocation per entry, few cache lines per lookup.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace opscope {

// Entries are not removed one by one. References to values hold until the next insertion.
template <class Key, class Value, class Hash>
class FlatMap {
 public:
  explicit FlatMap(size_t capacity = 64) : slots_(capacity) {}

  Value* find(const Key& key) {
    Slot& slot = slots_[place_of(key)];
    return slot.used ? &slot.value : nullptr;
  }
  const Value* find(const Key& key) const { return const_cast<FlatMap*>(this)->find(key); }

  Value& operator[](const Key& key) {
    size_t at = place_of(key);
    if (!slots_[at].used) {
      if (2 * (used_ + 1) > slots_.size()) {
        grow();
        at = place_of(key);
      }
      ++used_;
      slots_[at].used = true;
      slots_[at].key = key;
    }
    return slots_[at].value;
  }

  template <class Function>
  void each(Function function) const {
    if (used_ == 0) return;
    for (const Slot& slot : slots_) {
      if (slot.used) function(slot.key, slot.value);
    }
  }
  // Calls `function` for every value, and forgets all of them.
  template <class Function>
  void clear(Function function) {
    if (used_ == 0) return;
    for (Slot& slot : slots_) {
      if (!slot.used) continue;
      function(slot.value);
      slot = Slot();
    }
    used_ = 0;
  }
  void clear() {
    clear([](Value&) {});
  }

  // Forgets what `function(key, value)` says no to.
  template <class Function>
  void keep(Function function) {
    std::vector<Slot> old(slots_.size());
    old.swap(slots_);
    used_ = 0;
    for (Slot& slot : old) {
      if (!slot.used || !function(slot.key, slot.value)) continue;
      slots_[place_of(slot.key)] = std::move(slot);
      ++used_;
    }
  }

  size_t size() const { return used_; }

 private:
  struct Slot {
    Key key{};
    Value value{};
    bool used = false;
  };
  size_t place_of(const Key& key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = Hash()(key) & mask;
    while (slots_[at].used && !(slots_[at].key == key)) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (Slot& slot : old) {
      if (slot.used) slots_[place_of(slot.key)] = std::move(slot);
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half in use
  size_t used_ = 0;
};

struct AddressHash {
  size_t operator()(const void* address) const {
    const auto number = reinterpret_cast<uint64_t>(address);
    return static_cast<size_t>((number >> 4) * 0x9e3779b97f4a7c15u >> 20);
  }
};

}  // namespace opscope
