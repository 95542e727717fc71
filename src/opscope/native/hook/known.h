// What is known of tensors in a step; the same as capture/known.py, without Python objects for it.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope {

// What is shared by tensors that share memory: the latest operator that wrote to it.
struct Shared {
  long users = 0;
  PyObject* writer = nullptr;
};

struct Entry {
  const void* tensor = nullptr;  // null: free
  PyObject* source = nullptr;
  Shared* shared = nullptr;      // null: nothing else shares its memory
  PyObject* writer = nullptr;    // `source` holds as long as this is the shared writer
};

class KnownMap {
 public:
  KnownMap() : entries_(1024) {}
  ~KnownMap() { clear(); }
  KnownMap(const KnownMap&) = delete;
  KnownMap& operator=(const KnownMap&) = delete;

  // Where the tensor comes from; borrowed, null if it is not known.
  PyObject* get(const void* tensor) const {
    const Entry* entry = find(tensor);
    if (entry == nullptr) return nullptr;
    if (entry->shared == nullptr || entry->shared->writer == entry->writer) return entry->source;
    return entry->shared->writer;
  }
  void put(const void* tensor, PyObject* source) { set(place(tensor), source, nullptr); }
  void put_outside(const void* tensor, PyObject* source) {
    set(place(tensor), source, new Shared());
  }
  void put_view(const void* view, const void* base, PyObject* base_source, PyObject* source) {
    Entry& of_base = place(base);
    if (of_base.shared == nullptr) set(of_base, base_source, new Shared());
    Shared* shared = of_base.shared;  // `of_base` may move when the table grows
    set(place(view), source, shared);
  }
  void put_write(const void* tensor, PyObject* output) {
    Entry& entry = place(tensor);
    if (entry.shared != nullptr) {
      Py_INCREF(output);
      PyObject* old = entry.shared->writer;
      entry.shared->writer = output;
      Py_XDECREF(old);
    } else {
      set(entry, output, nullptr);
    }
  }
  void drop(const void* tensor);
  void clear();

 private:
  static size_t hash(const void* tensor) {
    const auto number = reinterpret_cast<uint64_t>(tensor);
    return static_cast<size_t>((number >> 4) * 0x9e3779b97f4a7c15u >> 20);
  }
  const Entry* find(const void* tensor) const {
    const size_t mask = entries_.size() - 1;
    for (size_t at = hash(tensor) & mask;; at = (at + 1) & mask) {
      if (entries_[at].tensor == tensor) return &entries_[at];
      if (entries_[at].tensor == nullptr) return nullptr;
    }
  }
  Entry& place(const void* tensor);
  void grow();
  static void set(Entry& entry, PyObject* source, Shared* shared);
  static void release(Entry& entry);

  std::vector<Entry> entries_;
  size_t used_ = 0;
};

// The map as a Python object, with the methods of `opscope.capture.known.Known`.
struct KnownObject {
  PyObject_HEAD
  KnownMap* map;
};
extern PyTypeObject KnownType;

}  // namespace opscope
