#include "known.h"

#include <algorithm>
#include <new>

namespace opscope {
namespace {

constexpr int kLooks = 2;  // at entries, for each that is added

c10::ScalarType type_of(const c10::TensorImpl& tensor) {
  return c10::typeMetaToScalarType(tensor.dtype());
}

const void* storage_of(const void* tensor) {
  const auto* impl = static_cast<const c10::TensorImpl*>(tensor);
  return impl->has_storage() ? impl->storage().unsafeGetStorageImpl() : nullptr;
}

Stretch stretch_of(const void* tensor) {
  const auto& impl = *static_cast<const c10::TensorImpl*>(tensor);
  if (!impl.has_storage()) return {};
  const auto* data = static_cast<const char*>(impl.storage().data());
  if (data != nullptr) data += impl.storage_offset() * static_cast<int64_t>(impl.itemsize());
  return {impl.storage().unsafeGetStorageImpl(), data, impl.numel(), type_of(impl)};
}

// An object that is gone keeps its address as long as someone holds a weak reference.
void pin(const void* tensor) {
  c10::raw::weak_intrusive_ptr::incref(
      static_cast<c10::TensorImpl*>(const_cast<void*>(tensor)));
}

void unpin(const void* tensor) {
  c10::raw::weak_intrusive_ptr::decref(
      static_cast<c10::TensorImpl*>(const_cast<void*>(tensor)));
}

// Whether nobody but us knows an object any more.
bool is_gone(const void* pinned) {
  return c10::raw::weak_intrusive_ptr::use_count(
             static_cast<c10::intrusive_ptr_target*>(const_cast<void*>(pinned))) == 0;
}

void pin_storage(const void* storage) {
  c10::raw::weak_intrusive_ptr::incref(
      static_cast<c10::StorageImpl*>(const_cast<void*>(storage)));
}

void unpin_storage(const void* storage) {
  c10::raw::weak_intrusive_ptr::decref(
      static_cast<c10::StorageImpl*>(const_cast<void*>(storage)));
}

template <class Holder>
void hold(Holder& holder, Maker maker, Shared* shared) {
  Py_INCREF(maker.source);
  holder.maker = maker;
  holder.shared = shared;
  holder.writer = Maker();
  if (shared != nullptr) {
    ++shared->users;
    Py_XINCREF(shared->writer.source);
    holder.writer = shared->writer;
  }
}

template <class Holder>
void let_go(Holder& holder) {
  Py_XDECREF(holder.maker.source);
  Py_XDECREF(holder.writer.source);
  if (holder.shared != nullptr && --holder.shared->users == 0) {
    Py_XDECREF(holder.shared->writer.source);
    delete holder.shared;
  }
  holder = Holder();
}

template <class Holder>
Maker maker_in(const Holder& holder) {
  if (holder.shared == nullptr || holder.shared->writer == holder.writer) return holder.maker;
  return holder.shared->writer;
}

}  // namespace

void KnownMap::set(Entry& entry, Maker maker, Shared* shared) {
  Entry old = entry;
  hold(entry, maker, shared);
  let_go(old);
}

void KnownMap::set(Memory& memory, Maker maker, Shared* shared) {
  Memory old = memory;
  hold(memory, maker, shared);
  let_go(old);
}

void KnownMap::release(Entry& entry) { let_go(entry); }
void KnownMap::release(Memory& memory) { let_go(memory); }

Maker KnownMap::get(const void* tensor) const {
  const Entry* entry = find(tensor);
  if (entry == nullptr) return {};
  // It may have been given other memory without an operator.
  return entry->storage == storage_of(tensor) ? maker_in(*entry) : Maker();
}

void KnownMap::put_view(const void* view, const void* base, Maker of_base, Maker maker) {
  sweep();
  Entry& entry = place(base);
  const void* storage = storage_of(base);
  if (entry.shared == nullptr || entry.storage != storage) {
    set(entry, of_base, new Shared());
    move(entry, storage);
    if (Memory* memory = memory_of(entry)) set(*memory, of_base, entry.shared);
  }
  Shared* shared = entry.shared;  // `entry` may move when the table grows
  set(place(view), maker, shared);
  note_memory(view, Note::kIfNew);
}

void KnownMap::put_write(const void* tensor, Maker output) {
  sweep();
  Entry& entry = place(tensor);
  if (entry.shared != nullptr && entry.maker.source != nullptr) {
    Py_INCREF(output.source);
    PyObject* old = entry.shared->writer.source;
    entry.shared->writer = output;
    move(entry, storage_of(tensor));
    Py_XDECREF(old);
    return;
  }
  set(entry, output, nullptr);
  note_memory(tensor, Note::kReplace);
}

// What is noted of the memory of a tensor, if that was noted of this tensor.
Memory* KnownMap::memory_of(const Entry& entry) {
  Memory* found = memories_.find(stretch_of(entry.tensor));
  return found != nullptr && found->serial == entry.serial ? found : nullptr;
}

Entry& KnownMap::place(const void* tensor) {
  const size_t mask = entries_.size() - 1;
  for (size_t at = hash(tensor) & mask;; at = (at + 1) & mask) {
    if (entries_[at].tensor == tensor) return entries_[at];
    if (entries_[at].tensor != nullptr) continue;
    if (2 * (used_ + 1) > entries_.size()) {
      grow();
      return place(tensor);
    }
    ++used_;
    pin(tensor);
    queue_.push_back(tensor);
    entries_[at].tensor = tensor;
    entries_[at].serial = ++serial_;
    return entries_[at];
  }
}

// Notes in which storage a tensor lies.
void KnownMap::move(Entry& entry, const void* storage) {
  const bool lasts = (entry.serial & kLasting) != 0;
  moved_ = moved_ || (lasts && entry.storage != nullptr && entry.storage != storage);
  entry.storage = storage;
}

void KnownMap::note_memory(const void* tensor, Note how) {
  const Stretch stretch = stretch_of(tensor);
  Entry& entry = place(tensor);
  move(entry, stretch.storage);
  if (stretch.storage == nullptr) return;
  Memory& memory = memories_[stretch];
  if (memory.maker.source == nullptr) {
    auto& stretches = storages_[stretch.storage];
    if (stretches.empty()) {
      pin_storage(stretch.storage);
      if (!(entry.serial & kLasting)) passing_.push_back(stretch.storage);
    } else if (!(entry.serial & kLasting)) {
      parted_.push_back(stretch.storage);
    }
    stretches.push_back(stretch);
  } else if (how == Note::kIfNew) {
    return;
  }
  set(memory, entry.maker, entry.shared);
  memory.tensor = tensor;
  memory.serial = entry.serial;
}

Maker KnownMap::put_twin(const c10::TensorImpl* tensor) {
  const Stretch stretch = stretch_of(tensor);
  if (stretch.storage == nullptr) return {};
  Memory* found = memories_.find(stretch);
  if (found == nullptr) return {};
  Memory& memory = *found;
  if (memory.maker.source == nullptr) return {};
  if (memory.shared == nullptr) {
    const Maker maker = memory.maker;
    const void* first = memory.tensor;
    set(memory, maker, new Shared());
    const Entry* entry = first == nullptr ? nullptr : find(first);
    if (entry != nullptr && entry->serial == memory.serial && entry->storage == stretch.storage &&
        entry->shared == nullptr) {
      Entry& known = place(first);
      set(known, maker, memory.shared);
    }
  }
  const Maker maker = maker_in(memory);
  Entry& entry = place(tensor);
  set(entry, maker, memory.shared);
  move(entry, stretch.storage);
  return maker;
}

void KnownMap::grow() {
  std::vector<Entry> old(2 * entries_.size());
  old.swap(entries_);
  const size_t mask = entries_.size() - 1;
  for (const Entry& entry : old) {
    if (entry.tensor == nullptr) continue;
    size_t at = hash(entry.tensor) & mask;
    while (entries_[at].tensor != nullptr) at = (at + 1) & mask;
    entries_[at] = entry;
  }
}

void KnownMap::drop(const void* tensor) {
  const size_t mask = entries_.size() - 1;
  size_t at = hash(tensor) & mask;
  while (entries_[at].tensor != tensor) {
    if (entries_[at].tensor == nullptr) return;
    at = (at + 1) & mask;
  }
  if (entries_[at].serial & kLasting) --lasting_;
  release(entries_[at]);
  unpin(tensor);
  --used_;
  // Close the gap: what follows may have been put here but for it.
  for (size_t next = (at + 1) & mask; entries_[next].tensor != nullptr; next = (next + 1) & mask) {
    const size_t home = hash(entries_[next].tensor) & mask;
    if (((next - home) & mask) < ((next - at) & mask)) continue;
    entries_[at] = entries_[next];
    entries_[next] = Entry();
    at = next;
  }
}

// Looks at the entries that were not looked at for longest. Most tensors are gone a few operators
// after they were made, others when backward has used them.
void KnownMap::sweep() {
  for (int looks = 0; looks < kLooks && !queue_.empty(); ++looks) {
    const void* tensor = queue_.front();
    queue_.pop_front();
    const Entry* entry = find(tensor);
    if (entry == nullptr) continue;
    if (!is_gone(tensor)) {
      queue_.push_back(tensor);
      continue;
    }
    const void* storage = entry->storage;
    drop(tensor);
    drop_storage(storage);
  }
}

// Forgets what is known of memory that is gone.
void KnownMap::drop_storage(const void* storage) {
  if (storages_.find(storage) != nullptr && is_gone(storage)) forget_storage(storage);
}

void KnownMap::forget_storage(const void* storage) {
  const auto* found = storages_.find(storage);
  if (found == nullptr) return;
  const auto stretches = *found;
  for (const Stretch& stretch : stretches) {
    Memory* memory = memories_.find(stretch);
    if (memory == nullptr) continue;
    release(*memory);
    memories_.erase(stretch);
  }
  storages_.erase(storage);
  unpin_storage(storage);
}

void KnownMap::clear() {
  for (Entry& entry : entries_) {
    if (entry.tensor == nullptr) continue;
    unpin(entry.tensor);
    release(entry);
  }
  used_ = 0;
  memories_.clear([](Memory& memory) { release(memory); });
  storages_.each([](const void* storage, const auto&) { unpin_storage(storage); });
  storages_.clear();
  queue_.clear();
  passing_.clear();
  parted_.clear();
  moved_ = false;
  lasting_ = 0;
}

void KnownMap::put_lasting(const void* tensor, PyObject* source) {
  Entry& entry = place(tensor);
  if (!(entry.serial & kLasting)) ++lasting_;
  entry.serial |= kLasting;
  put_outside(tensor, source);
  queue_.clear();
}

// Forgets what does not last.
void KnownMap::forget_passing() {
  for (const void* tensor : queue_) {
    const Entry* entry = find(tensor);
    if (entry != nullptr && !(entry->serial & kLasting)) drop(tensor);
  }
  queue_.clear();
  for (const void* storage : passing_) forget_storage(storage);
  passing_.clear();
  std::sort(parted_.begin(), parted_.end());
  parted_.erase(std::unique(parted_.begin(), parted_.end()), parted_.end());
  for (const void* storage : parted_) forget_parts(storage);
  parted_.clear();
}

// Forgets the stretches of a storage that are not those of tensors that last.
void KnownMap::forget_parts(const void* storage) {
  auto* all = storages_.find(storage);
  if (all == nullptr) return;
  const auto passes = [this](const Stretch& stretch) {
    Memory* memory = memories_.find(stretch);
    if (memory == nullptr) return true;
    const Entry* entry = memory->tensor == nullptr ? nullptr : find(memory->tensor);
    const bool lasts = entry != nullptr && entry->serial == memory->serial && entry->serial & kLasting;
    if (lasts) return false;
    release(*memory);
    memories_.erase(stretch);
    return true;
  };
  all->erase(std::remove_if(all->begin(), all->end(), passes), all->end());
}

// Has a tensor that lasts be as it was put; false if it is not where it was, or not known so.
bool KnownMap::refresh(const void* tensor, PyObject* source) {
  const Entry* found = find(tensor);
  if (found == nullptr || !(found->serial & kLasting) || found->maker.source != source) return false;
  const Stretch own = stretch_of(tensor);
  if (found->storage != own.storage) return false;
  Memory* memory = nullptr;
  if (own.storage != nullptr) {
    memory = memories_.find(own);
    if (memory == nullptr || memory->tensor != tensor || memory->serial != found->serial) return false;
  }
  Entry& entry = place(tensor);
  const bool is_new = entry.maker.call < 0 && entry.shared != nullptr &&
                      entry.shared->users == (memory != nullptr ? 2 : 1) &&
                      entry.shared->writer.source == nullptr;
  if (is_new && (memory == nullptr || memory->shared == entry.shared)) return true;
  set(entry, {source, -1}, new Shared());
  if (memory != nullptr) set(*memory, entry.maker, entry.shared);
  return true;
}

void KnownMap::restart(PyObject* lasting) {
  const auto each = [lasting](const auto& function) {
    PyObject *key = nullptr, *source = nullptr;
    Py_ssize_t position = 0;
    bool goes_on = true;
    while (goes_on && PyDict_Next(lasting, &position, &key, &source)) {
      goes_on = function(PyLong_AsVoidPtr(key), source);
    }
    return goes_on;
  };
  if (!moved_ && lasting_ == static_cast<size_t>(PyDict_GET_SIZE(lasting))) {
    forget_passing();
    if (each([this](const void* tensor, PyObject* source) { return refresh(tensor, source); })) return;
  }
  clear();
  each([this](const void* tensor, PyObject* source) {
    put_lasting(tensor, source);
    return true;
  });
}

namespace {

KnownMap& map_of(PyObject* self) { return *reinterpret_cast<KnownObject*>(self)->map; }

bool is_count(Py_ssize_t count, Py_ssize_t expected) {
  if (count == expected) return true;
  PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", expected, count);
  return false;
}

PyObject* make(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) reinterpret_cast<KnownObject*>(self)->map = new KnownMap();
  return self;
}

void destroy(PyObject* self) {
  delete reinterpret_cast<KnownObject*>(self)->map;
  Py_TYPE(self)->tp_free(self);
}

PyObject* get(PyObject* self, PyObject* key) {
  PyObject* found = map_of(self).get(PyLong_AsVoidPtr(key)).source;
  return Py_NewRef(found == nullptr ? Py_None : found);
}

PyObject* call_of(PyObject* self, PyObject* key) {
  return PyLong_FromLongLong(map_of(self).get(PyLong_AsVoidPtr(key)).call);
}

PyObject* put(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (!is_count(count, 3)) return nullptr;
  map_of(self).put(PyLong_AsVoidPtr(arguments[0]), {arguments[1], PyLong_AsLongLong(arguments[2])});
  Py_RETURN_NONE;
}

PyObject* put_outside(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (!is_count(count, 2)) return nullptr;
  map_of(self).put_outside(PyLong_AsVoidPtr(arguments[0]), arguments[1]);
  Py_RETURN_NONE;
}

PyObject* put_view(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (!is_count(count, 5)) return nullptr;
  map_of(self).put_view(PyLong_AsVoidPtr(arguments[0]), PyLong_AsVoidPtr(arguments[1]),
                        {arguments[2], -1}, {arguments[3], PyLong_AsLongLong(arguments[4])});
  Py_RETURN_NONE;
}

PyObject* put_write(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (!is_count(count, 3)) return nullptr;
  map_of(self).put_write(PyLong_AsVoidPtr(arguments[0]),
                         {arguments[1], PyLong_AsLongLong(arguments[2])});
  Py_RETURN_NONE;
}

PyObject* drop(PyObject* self, PyObject* key) {
  map_of(self).drop(PyLong_AsVoidPtr(key));
  Py_RETURN_NONE;
}

PyObject* restart(PyObject* self, PyObject* lasting) {
  if (!PyDict_Check(lasting)) {
    PyErr_SetString(PyExc_TypeError, "expected a dict");
    return nullptr;
  }
  map_of(self).restart(lasting);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"get", get, METH_O, "Where a tensor comes from, or None."},
    {"call_of", call_of, METH_O, "The call that made a tensor what it is, or -1."},
    {"put", reinterpret_cast<PyCFunction>(put), METH_FASTCALL, "A new tensor."},
    {"put_outside", reinterpret_cast<PyCFunction>(put_outside), METH_FASTCALL,
     "A tensor from outside the step."},
    {"put_view", reinterpret_cast<PyCFunction>(put_view), METH_FASTCALL,
     "A tensor that shares the memory of another."},
    {"put_write", reinterpret_cast<PyCFunction>(put_write), METH_FASTCALL,
     "A tensor that was written to."},
    {"drop", drop, METH_O, "Nothing is known of this tensor."},
    {"restart", restart, METH_O, "Know only what lasts."},
    {nullptr, nullptr, 0, nullptr}};

PyTypeObject make_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "opscope_hook.Known";
  type.tp_basicsize = sizeof(KnownObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_new = make;
  type.tp_dealloc = destroy;
  type.tp_methods = methods;
  return type;
}

}  // namespace

PyTypeObject KnownType = make_type();

}  // namespace opscope
