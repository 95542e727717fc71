// Rows at a glance: what stats/glance.py finds of them, in one go.
#pragma once

#include <Python.h>

#include <cstdint>
#include <cstring>

#include "generated/record.h"

namespace opscope {

struct Glance {
  int64_t valid = 0;
  bool bad = false;
  double largest = 0;
  uint64_t places[2] = {0x243f6a8885a308d3u, 0x13198a2e03707344u};

  void add(const char* record) {
    const auto number = [record](int at) {
      uint64_t found = 0;
      std::memcpy(&found, record + at, sizeof found);
      return found;
    };
    const auto real = [record](int at) {
      double found = 0;
      std::memcpy(&found, record + at, sizeof found);
      return found;
    };
    valid += record[kValidAt] != 0;
    const uint64_t infinite = number(kPosinfAt) | number(kNeginfAt);
    bad = bad || (infinite | number(kNanAt)) != 0;
    if (infinite == 0 && record[kKindAt] == kFloat) {
      const double high = real(kMaxAt), low = -real(kMinAt);  // or NaN, which is not larger
      if (high > largest) largest = high;
      if (low > largest) largest = low;
    }
    // Io and slot, node, call.
    add_place(number(0) & 0xFFFFFFFF0000FF00u);
    add_place((number(8) >> 32 << 32) | (number(16) & 0xFFFFFFFFu));
  }

 private:
  void add_place(uint64_t bits) {
    places[0] = mixed(places[0] ^ bits, 0x9e3779b97f4a7c15u);
    places[1] = mixed(places[1] + bits, 0xd6e8feb86659fd93u);
  }
  static uint64_t mixed(uint64_t value, uint64_t by) {
    value *= by;
    return value ^ value >> 32;
  }
};

inline PyObject* glance(const char* records, int64_t count) {
  Glance found;
  for (int64_t i = 0; i < count; ++i) found.add(records + i * kRecordBytes);
  return Py_BuildValue("LOdN", static_cast<long long>(found.valid), found.bad ? Py_True : Py_False,
                       found.largest,
                       PyBytes_FromStringAndSize(reinterpret_cast<const char*>(found.places),
                                                 sizeof found.places));
}

}  // namespace opscope
