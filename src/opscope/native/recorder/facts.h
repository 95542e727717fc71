// The facts of steps, as record/step_facts.py has them: batches that lie in the memory of the host as
// most do, random states and the texts of steps go into the ring without a detour through Python.
//
// Each function says if it cannot do what it is asked to; Python does it then.
#pragma once

#include <Python.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "device.h"
#include "generated/python_objects.h"
#include "generated/simple_tensors.h"
#include "ring.h"

namespace opscope {

// Where tensors go, with a description: its length comes first.
struct Blob {
  char* at;
  uint64_t room;
  std::atomic<uint64_t>& used;
};

inline char* steps_at() {
  return reinterpret_cast<char*>(ring.records) + (ring.mask + 1) * sizeof(Record);
}

inline Blob batch_blob() {
  const uint64_t steps = ring.field(kStepSlotsField) * ring.field(kStepBytesField);
  return {steps_at() + steps, ring.field(kBatchBytesField), ring.field(kBatchUsedField)};
}

inline Blob random_blob() {
  const Blob batch = batch_blob();
  return {batch.at + batch.room, ring.field(kRandomBytesField), ring.field(kRandomUsedField)};
}

// As zlib has it. More tables would be quicker for what is long, but have to come from memory for
// what is short, as most batches are.
class Checksum {
 public:
  void add(const char* data, size_t size) {
    const auto& tables = all();
    uint32_t now = ~value_;
    for (; size >= kTables; size -= kTables, data += kTables) {
      uint32_t word = 0;
      std::memcpy(&word, data, kTables);
      word ^= now;
      now = 0;
      for (size_t byte = 0; byte < kTables; ++byte) {
        now ^= tables[kTables - 1 - byte][word >> 8 * byte & 0xFF];
      }
    }
    for (; size != 0; --size, ++data) {
      now = tables[0][(now ^ static_cast<uint8_t>(*data)) & 0xFF] ^ now >> 8;
    }
    value_ = ~now;
  }
  uint32_t value() const { return value_; }

 private:
  static constexpr size_t kTables = sizeof(uint32_t);
  using Tables = std::array<std::array<uint32_t, 256>, kTables>;
  static const Tables& all() {
    static const Tables tables = [] {
      Tables made;
      for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
        made[0][byte] = value;
      }
      for (size_t table = 1; table < made.size(); ++table) {
        for (size_t byte = 0; byte < 256; ++byte) {
          const uint32_t before = made[table - 1][byte];
          made[table][byte] = made[0][before & 0xFF] ^ before >> 8;
        }
      }
      return made;
    }();
    return tables;
  }
  uint32_t value_ = 0;
};

struct NamedTensor {
  const char* name;
  const c10::TensorImpl* tensor;
  bool on_host = true;

  const char* data() const { return static_cast<const char*>(tensor->data()); }
  size_t bytes() const { return static_cast<size_t>(tensor->numel()) * tensor->itemsize(); }
};

// A text that JSON has as it is; null if it is another.
inline const char* plain_text(PyObject* object) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (text == nullptr) PyErr_Clear();
  for (Py_ssize_t i = 0; text != nullptr && i < size; ++i) {
    if (text[i] < ' ' || text[i] == '"' || text[i] == '\\' || text[i] > '~') return nullptr;
  }
  return text;
}

// Pairs of names and tensors, if all are as most are.
inline bool read_tensors(PyObject* list, std::vector<NamedTensor>& found) {
  const WithoutFunctions past_functions;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* pair = PyList_GET_ITEM(list, i);
    const char* name = plain_text(PyTuple_GET_ITEM(pair, 0));
    if (name == nullptr) return false;
    const c10::TensorImpl* impl = tensor_impl(PyTuple_GET_ITEM(pair, 1));
    const c10::TensorImpl* tensor = simple_tensor(impl);
    const bool on_host = tensor != nullptr;
    if (!on_host) tensor = cuda_tensor(impl);
    if (tensor == nullptr) return false;
    const auto dtype = static_cast<size_t>(c10::typeMetaToScalarType(tensor->dtype()));
    if (dtype >= kDtypeNames.size() || kDtypeNames[dtype].empty()) return false;
    found.push_back({name, tensor, on_host});
  }
  return true;
}

// A tensor as JSON, without the brace at its end.
inline void append_head(std::string& text, const NamedTensor& each) {
  const auto dtype = static_cast<size_t>(c10::typeMetaToScalarType(each.tensor->dtype()));
  text.append("{\"name\":\"").append(each.name).append("\",\"dtype\":\"");
  text.append(kDtypeNames[dtype]).append("\",\"shape\":[");
  const auto sizes = each.tensor->sizes();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i != 0) text += ',';
    text += std::to_string(sizes[i]);
  }
  text += ']';
}

inline uint32_t digest(const NamedTensor& each) {
  constexpr size_t kEnd = 1 << 16;  // so many bytes at the beginning and at the end
  Checksum found;
  const size_t size = each.bytes(), first = std::min(size, kEnd), last = std::min(size - first, kEnd);
  found.add(each.data(), first);
  found.add(each.data() + size - last, last);
  return found.value();
}

// What the tensors are, as JSON with commas between.
inline std::string descriptions(const std::vector<NamedTensor>& tensors) {
  std::string text;
  char end[32];
  for (const NamedTensor& each : tensors) {
    if (!text.empty()) text += ',';
    append_head(text, each);
    if (each.on_host) {
      std::snprintf(end, sizeof end, ",\"digest\":\"%08x\"}", digest(each));
    } else {
      std::snprintf(end, sizeof end, ",\"device\":\"cuda:%d\"}", each.tensor->device().index());
    }
    text += end;
  }
  return text;
}

inline PyObject* text_of(const std::string& text) {
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

// The same of a list; None if Python is to say.
inline PyObject* describe_tensors(PyObject* list) {
  std::vector<NamedTensor> tensors;
  if (!read_tensors(list, tensors)) Py_RETURN_NONE;
  return text_of(descriptions(tensors));
}

inline std::string about_tensors(long long step, const std::vector<NamedTensor>& tensors) {
  std::string text = "{\"step\": " + std::to_string(step) + ", \"tensors\": [";
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i != 0) text += ", ";
    append_head(text, tensors[i]);
    text += '}';
  }
  return text + "]}";
}

inline bool put_tensors(const Blob& blob, long long step, const std::vector<NamedTensor>& tensors) {
  const std::string about = about_tensors(step, tensors);
  uint64_t size = sizeof(uint32_t) + about.size();
  for (const NamedTensor& each : tensors) size += each.bytes();
  if (size > blob.room) return false;
  blob.used = 0;
  const auto length = static_cast<uint32_t>(about.size());
  std::memcpy(blob.at, &length, sizeof length);
  std::memcpy(blob.at + sizeof length, about.data(), about.size());
  char* to = blob.at + sizeof length + about.size();
  for (const NamedTensor& each : tensors) {
    if (each.bytes() != 0) std::memcpy(to, each.data(), each.bytes());
    to += each.bytes();
  }
  blob.used = size;
  return true;
}

// Writes as many of those in the host's memory as there is room for.
inline void put_fitting(long long step, std::vector<NamedTensor>& tensors) {
  std::erase_if(tensors, [](const NamedTensor& each) { return !each.on_host; });
  while (!put_tensors(batch_blob(), step, tensors) && !tensors.empty()) tensors.pop_back();
}

inline bool put_batch(long long step, PyObject* list) {
  std::vector<NamedTensor> tensors;
  if (!ring.active || !read_tensors(list, tensors)) return false;
  put_fitting(step, tensors);
  return true;
}

// Writes the states of torch's generators, of a GPU only where one is used.
inline bool put_random(long long step, bool uses_device) {
  if (!ring.active) return false;
  c10::intrusive_ptr<c10::TensorImpl> of_device;
  if (uses_device && !device_random(of_device)) return false;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  c10::intrusive_ptr<c10::TensorImpl> of_host;
  {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    of_host = generator.unsafeGetGeneratorImpl()->get_state();
  }
  std::vector<NamedTensor> states{{"torch", of_host.get()}};
  if (of_device) states.push_back({"cuda", of_device.get()});
  return put_tensors(random_blob(), step, states);
}

// Writes the facts of a step over those of the oldest, without the last ones if they are too long.
inline bool put_step(unsigned long long number, PyObject* facts, PyObject* statistics) {
  if (!ring.active) return false;
  const uint64_t slots = ring.field(kStepSlotsField), bytes = ring.field(kStepBytesField);
  const uint64_t room = bytes - sizeof(uint32_t);
  static thread_local std::string text;
  text = "{";
  const auto append = [&](PyObject* name, PyObject* value) {
    Py_ssize_t lengths[2] = {0, 0};
    const char* parts[2] = {PyUnicode_AsUTF8AndSize(name, &lengths[0]),
                            PyUnicode_AsUTF8AndSize(value, &lengths[1])};
    if (parts[0] == nullptr || parts[1] == nullptr) {
      PyErr_Clear();
      return false;
    }
    const size_t size = static_cast<size_t>(lengths[0] + lengths[1]) + (text.size() > 1 ? 4 : 3);
    if (text.size() + size + 1 > room) return false;
    if (text.size() > 1) text += ',';
    text.append("\"").append(parts[0], static_cast<size_t>(lengths[0])).append("\":");
    text.append(parts[1], static_cast<size_t>(lengths[1]));
    return true;
  };
  PyObject *name = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  bool fits = true;
  while (fits && PyDict_Next(facts, &at, &name, &value)) fits = append(name, value);
  static PyObject* const of_statistics = PyUnicode_InternFromString("statistics");
  if (fits && statistics != Py_None) append(of_statistics, statistics);
  text += '}';
  char* to = steps_at() + number % slots * bytes;
  auto& length = *reinterpret_cast<std::atomic<uint32_t>*>(to);
  length.store(0, std::memory_order_release);
  std::memcpy(to + sizeof length, text.data(), text.size());
  length.store(static_cast<uint32_t>(text.size()), std::memory_order_release);
  if (number >= ring.field(kStepsHeadField)) ring.field(kStepsHeadField) = number + 1;
  return true;
}

// The name of an argument without one, by its position.
inline PyObject* position_name(size_t position) {
  static auto* const names = new std::vector<PyObject*>();
  while (names->size() <= position) {
    names->push_back(PyUnicode_FromFormat("input%zu", names->size()));
  }
  return (*names)[position];
}

inline PyObject* tensor_class() {
  static PyObject* const found = [] {
    Ref torch = Ref::take(PyImport_ImportModule("torch"));
    return torch ? PyObject_GetAttrString(torch.get(), "Tensor") : nullptr;
  }();
  return found;
}

// The tensors among the arguments of a call, as pairs in a list; null if Python is to find them:
// where something may have more tensors inside, or autograd has made one, or they are many, or one
// is of the batch before.
inline PyObject* call_tensors(PyObject* args, PyObject* kwargs, PyObject* before) {
  constexpr Py_ssize_t kMost = 16;
  Ref found = Ref::take(PyList_New(0));
  const auto add = [&](PyObject* name, PyObject* value) {
    if (value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) ||
        PyFloat_CheckExact(value) || PyUnicode_CheckExact(value)) {
      return true;
    }
    if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != tensor_class()) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(before); ++i) {
      if (PyTuple_GET_ITEM(PyList_GET_ITEM(before, i), 1) == value) return false;
    }
    Ref pair = Ref::take(PyTuple_Pack(2, name, value));
    return pair && PyList_Append(found.get(), pair.get()) == 0;
  };
  bool simple = static_cast<bool>(found);
  for (Py_ssize_t i = 0; simple && i < PyTuple_GET_SIZE(args); ++i) {
    simple = i < kMost && add(position_name(static_cast<size_t>(i)), PyTuple_GET_ITEM(args, i));
  }
  PyObject *name = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (simple && PyDict_Next(kwargs, &at, &name, &value)) simple = add(name, value);
  if (found) {
    const Py_ssize_t count = PyList_GET_SIZE(found.get());
    if (simple && count > 0 && count <= kMost) return found.release();
  }
  PyErr_Clear();
  return nullptr;
}

// Writes the batch that a network is called with, the random states, and the facts of the step with
// what the batch is. Returns its tensors and, in a list as well, what they are; None if Python is to
// do all this.
inline PyObject* note_call(long long step, unsigned long long number, PyObject* args,
                           PyObject* kwargs, PyObject* before, PyObject* facts, bool uses_device) {
  std::vector<NamedTensor> tensors;
  Ref found = ring.active ? Ref::take(call_tensors(args, kwargs, before)) : Ref();
  if (!found || !read_tensors(found.get(), tensors)) Py_RETURN_NONE;
  for (const NamedTensor& each : tensors) {
    if (each.tensor->requires_grad()) Py_RETURN_NONE;
  }
  if (!put_random(step, uses_device)) Py_RETURN_NONE;
  const std::string text = descriptions(tensors);
  static PyObject* const of_batch = PyUnicode_InternFromString("batch");
  Ref in_brackets = Ref::take(text_of('[' + text + ']'));
  Ref described = Ref::take(text_of(text));
  if (!in_brackets || !described) return nullptr;
  if (PyDict_SetItem(facts, of_batch, in_brackets.get()) != 0) return nullptr;
  put_fitting(step, tensors);
  put_step(number, facts, Py_None);
  return Py_BuildValue("(O[O])", found.get(), described.get());
}

}  // namespace opscope
