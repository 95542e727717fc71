// What is known of tensors in a step; the same as capture/known.py, without Python objects for it.
#pragma once

#include <Python.h>

#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "flat_map.h"

namespace opscope {

// What made a tensor what it is: an output of a node in one call, or something from outside.
struct Maker {
  PyObject* source = nullptr;
  int64_t call = -1;  // its index in the step
  bool operator==(const Maker& other) const { return source == other.source && call == other.call; }
};

// What is shared by tensors that share memory: the latest operator that wrote to it.
struct Shared {
  long users = 0;
  Maker writer;
};

// Of a tensor that is known beyond the step: a parameter, a buffer, what an optimizer keeps.
constexpr uint64_t kLasting = uint64_t{1} << 63;

struct Entry {
  const void* tensor = nullptr;  // null: free
  uint64_t serial = 0;           // unlike that of any other entry; with kLasting if it lasts
  const void* storage = nullptr;
  Maker maker;
  Shared* shared = nullptr;  // null: nothing else shares its memory
  Maker writer;              // `maker` holds as long as this is the shared writer
};

// A stretch of memory: tensors that are the same one are copies of each other, such as those that
// autograd saves, which are made without an operator.
struct Stretch {
  const void* storage = nullptr;
  const void* data = nullptr;
  int64_t count = 0;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  bool operator==(const Stretch& other) const {
    return storage == other.storage && data == other.data && count == other.count &&
           dtype == other.dtype;
  }
};

struct StretchHash {
  size_t operator()(const Stretch& stretch) const {
    const auto data = reinterpret_cast<uint64_t>(stretch.data);
    const auto mixed = (data >> 4) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(stretch.count);
    const auto hash = mixed ^ reinterpret_cast<uint64_t>(stretch.storage) * 0xff51afd7ed558ccdu;
    return static_cast<size_t>(hash >> 20);
  }
};

// What is known of a stretch: of the first tensor that was one, which may be gone.
struct Memory {
  const void* tensor = nullptr;
  uint64_t serial = 0;  // of the entry of that tensor
  Maker maker;
  Shared* shared = nullptr;
  Maker writer;
};

// Tensors and storages are known by their addresses, which are pinned: torch does not use them again
// as long as they are in the map. Those that are gone are let go of soon, or every tensor of a step
// would be made in memory that is in no cache.
class KnownMap {
 public:
  KnownMap() : entries_(256) {}
  ~KnownMap() { clear(); }
  KnownMap(const KnownMap&) = delete;
  KnownMap& operator=(const KnownMap&) = delete;

  // Where the tensor comes from; borrowed, nothing if it is not known.
  Maker get(const void* tensor) const;
  // Where a tensor comes from that is not known, but is the same stretch of memory as one that is;
  // from now on it is known as well. Nothing if there is none.
  Maker put_twin(const c10::TensorImpl* tensor);
  void put(const void* tensor, Maker maker) {
    sweep();
    set(place(tensor), maker, nullptr);
    note_memory(tensor, Note::kReplace);
  }
  void put_outside(const void* tensor, PyObject* source) {
    set(place(tensor), {source, -1}, new Shared());
    note_memory(tensor, Note::kReplace);
  }
  // Knows only what lasts, by a dictionary of addresses and sources, as if nothing had been done to it.
  void restart(PyObject* lasting);
  void put_view(const void* view, const void* base, Maker of_base, Maker maker);
  void put_write(const void* tensor, Maker output);
  void drop(const void* tensor);
  void clear();

 private:
  static size_t hash(const void* tensor) { return AddressHash()(tensor); }
  const Entry* find(const void* tensor) const {
    const size_t mask = entries_.size() - 1;
    for (size_t at = hash(tensor) & mask;; at = (at + 1) & mask) {
      if (entries_[at].tensor == tensor) return &entries_[at];
      if (entries_[at].tensor == nullptr) return nullptr;
    }
  }
  Entry& place(const void* tensor);
  enum class Note { kReplace, kIfNew };
  void note_memory(const void* tensor, Note how);
  Memory* memory_of(const Entry& entry);
  void grow();
  void sweep();
  void drop_storage(const void* storage);
  void forget_storage(const void* storage);
  void put_lasting(const void* tensor, PyObject* source);
  void forget_passing();
  bool refresh(const void* tensor, PyObject* source);
  void forget_parts(const void* storage);
  void move(Entry& entry, const void* storage);
  static void set(Entry& entry, Maker maker, Shared* shared);
  static void set(Memory& memory, Maker maker, Shared* shared);
  static void release(Entry& entry);
  static void release(Memory& memory);

  std::vector<Entry> entries_;
  size_t used_ = 0;
  uint64_t serial_ = 0;
  size_t lasting_ = 0;  // entries that last
  std::deque<const void*> queue_;  // the tensors of the others, in the order they are looked at
  std::vector<const void*> passing_;  // storages that only they have, some of which are gone
  std::vector<const void*> parted_;   // other storages that they have parts of
  bool moved_ = false;  // whether a tensor that lasts has been given another storage in this step
  FlatMap<Stretch, Memory, StretchHash> memories_;
  FlatMap<const void*, c10::SmallVector<Stretch, 1>, AddressHash> storages_;  // that are pinned
};

// The map as a Python object, with the methods of `opscope.capture.known.Known`.
struct KnownObject {
  PyObject_HEAD
  KnownMap* map;
};
extern PyTypeObject KnownType;

}  // namespace opscope
