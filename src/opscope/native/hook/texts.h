// The arguments of a call that are no tensors, as Python values.
#pragma once

#include <Python.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <string>

#include "call.h"
#include "state.h"

struct THPDtype;
namespace torch {
THPDtype* getTHPDtype(c10::ScalarType type);  // of libtorch_python
}

namespace opscope {

inline Ref text(const char* value) { return checked(PyUnicode_FromString(value)); }

inline const char* name_of(c10::Layout layout) {
  switch (layout) {
    case c10::Layout::Strided: return "strided";
    case c10::Layout::Sparse: return "sparse_coo";
    case c10::Layout::SparseCsr: return "sparse_csr";
    case c10::Layout::SparseCsc: return "sparse_csc";
    case c10::Layout::SparseBsr: return "sparse_bsr";
    case c10::Layout::SparseBsc: return "sparse_bsc";
    case c10::Layout::Mkldnn: return "_mkldnn";
    case c10::Layout::Jagged: return "jagged";
    default: return "layout";
  }
}

inline const char* name_of(c10::MemoryFormat format) {
  switch (format) {
    case c10::MemoryFormat::Contiguous: return "contiguous_format";
    case c10::MemoryFormat::Preserve: return "preserve_format";
    case c10::MemoryFormat::ChannelsLast: return "channels_last";
    case c10::MemoryFormat::ChannelsLast3d: return "channels_last_3d";
    default: return "memory_format";
  }
}

// What a number stands for, by the type that the schema gives it.
inline Ref meaning_of(int64_t value, const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return meaning_of(value, *type.containedType(0));
    case c10::TypeKind::ScalarTypeType: {
      const auto dtype = static_cast<c10::ScalarType>(value);
      Ref name = checked(PyObject_Str(reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype))));
      return checked(PyObject_CallMethod(name.get(), "removeprefix", "s", "torch."));
    }
    case c10::TypeKind::LayoutType:
      return text(name_of(static_cast<c10::Layout>(value)));
    case c10::TypeKind::MemoryFormatType:
      return text(name_of(static_cast<c10::MemoryFormat>(value)));
    default:
      return checked(PyLong_FromLongLong(value));
  }
}

inline bool is_number(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

inline Ref number_in(const at::Tensor& tensor) {
  const void* data = tensor.unsafeGetTensorImpl()->data();
  if (data == nullptr) return checked(PyFloat_FromDouble(0.0));  // a zero that takes no memory
  switch (tensor.scalar_type()) {
    case c10::ScalarType::Double: return checked(PyFloat_FromDouble(*static_cast<const double*>(data)));
    case c10::ScalarType::Long: return checked(PyLong_FromLongLong(*static_cast<const int64_t*>(data)));
    case c10::ScalarType::Bool: return Ref::share(*static_cast<const bool*>(data) ? Py_True : Py_False);
    case c10::ScalarType::ComplexDouble: {
      const auto* parts = static_cast<const double*>(data);
      return checked(PyComplex_FromDoubles(parts[0], parts[1]));
    }
    default: return text("number");
  }
}

inline bool has_tensor(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() && !is_number(value.toTensor());
  if (!value.isList()) return false;
  for (const c10::IValue& item : value.toListRef()) {
    if (has_tensor(item)) return true;
  }
  return false;
}

inline Ref python_value(const c10::IValue& value, const c10::Type& type) {
  if (value.isTensor() && is_number(value.toTensor())) return number_in(value.toTensor());
  if (value.isNone() || value.isTensor()) return Ref::share(Py_None);
  if (value.isBool()) return Ref::share(value.toBool() ? Py_True : Py_False);
  if (value.isInt()) return meaning_of(value.toInt(), type);
  if (value.isDouble()) return checked(PyFloat_FromDouble(value.toDouble()));
  if (value.isString()) return text(value.toStringRef().c_str());
  if (value.isDevice()) return text(value.toDevice().str().c_str());
  if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    return checked(PyComplex_FromDoubles(number.real(), number.imag()));
  }
  if (value.isList()) {
    Ref list = checked(PyList_New(0));
    for (const c10::IValue& item : value.toListRef()) {
      Ref object = python_value(item, *c10::AnyType::get());
      if (PyList_Append(list.get(), object.get()) < 0) throw PythonError();
    }
    return list;
  }
  return text(value.tagKind().c_str());
}

// By name; trailing positional arguments and named ones that are at their defaults are left out.
inline Ref texts_of(const Operator& op, Arguments values) {
  const auto& arguments = op.handle.schema().arguments();
  const size_t count = std::min(arguments.size(), values.size());
  const auto is_default = [&](size_t at) {
    const auto& standard = arguments[at].default_value();
    return standard.has_value() && !values[at].isTensor() && !has_tensor(values[at]) &&
           *standard == values[at];
  };
  size_t positional = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!arguments[i].kwarg_only() && !is_default(i)) positional = i + 1;
  }
  Ref found = checked(PyDict_New());
  for (size_t i = 0; i < count; ++i) {
    const bool given = arguments[i].kwarg_only() ? !is_default(i) : i < positional;
    if (!given || has_tensor(values[i])) continue;
    Ref value = python_value(values[i], *arguments[i].real_type());
    if (PyDict_SetItemString(found.get(), arguments[i].name().c_str(), value.get()) < 0)
      throw PythonError();
  }
  return found;
}

}  // namespace opscope
