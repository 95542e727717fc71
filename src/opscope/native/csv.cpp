// Lines of CSV from records; every number reads as Python's repr writes it.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "api.h"
#include "generated/record.h"

namespace {

using namespace opscope;

constexpr int kFirstFloatAt = kMeanAt, kLastFloatAt = kStdAt;
constexpr int kLongestNumber = 32;

template <class T>
T at(const unsigned char* record, int offset) {
  T value;
  std::memcpy(&value, record + offset, sizeof value);
  return value;
}

struct Digits {
  char text[24];
  int count;
  int exponent;  // of the first digit
};

// The fewest digits that read back as the same positive number.
Digits shortest(double value) {
  char buffer[40];
  char* end;
#if defined(__cpp_lib_to_chars)
  end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
#else
  int length = 0;
  for (int precision = 0; precision < 17; ++precision) {
    length = std::snprintf(buffer, sizeof buffer, "%.*e", precision, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  end = buffer + length;
#endif
  *end = '\0';
  Digits digits{};
  const char* next = buffer;
  for (; *next != 'e'; ++next) {
    if (*next != '.') digits.text[digits.count++] = *next;
  }
  digits.exponent = std::atoi(next + 1);
  return digits;
}

char* copy(char* out, const char* text, int count) {
  std::memcpy(out, text, static_cast<size_t>(count));
  return out + count;
}

char* zeros(char* out, int count) {
  for (; count > 0; --count) *out++ = '0';
  return out;
}

char* exponential(char* out, const Digits& digits) {
  *out++ = digits.text[0];
  if (digits.count > 1) {
    *out++ = '.';
    out = copy(out, digits.text + 1, digits.count - 1);
  }
  return out + std::snprintf(out, 8, "e%+03d", digits.exponent);
}

char* positional(char* out, const Digits& digits) {
  const int before = digits.exponent + 1;  // digits before the point
  if (before <= 0) {
    out = copy(out, "0.", 2);
    return copy(zeros(out, -before), digits.text, digits.count);
  }
  if (digits.count <= before) {
    out = zeros(copy(out, digits.text, digits.count), before - digits.count);
    return copy(out, ".0", 2);
  }
  out = copy(out, digits.text, before);
  *out++ = '.';
  return copy(out, digits.text + before, digits.count - before);
}

char* write_float(char* out, double value) {
  if (std::isnan(value)) return copy(out, "nan", 3);
  if (std::signbit(value)) {
    *out++ = '-';
    value = -value;
  }
  if (std::isinf(value)) return copy(out, "inf", 3);
  if (value == 0) return copy(out, "0.0", 3);
#if defined(__cpp_lib_to_chars)
  if (value >= 1e-4 && value < 1e15) {  // as most are: the digits are where they belong
    char* end = std::to_chars(out, out + kLongestNumber, value, std::chars_format::fixed).ptr;
    const bool whole = std::memchr(out, '.', static_cast<size_t>(end - out)) == nullptr;
    return whole ? copy(end, ".0", 2) : end;
  }
#endif
  const Digits digits = shortest(value);
  const bool plain = digits.exponent >= -4 && digits.exponent < 16;
  return plain ? positional(out, digits) : exponential(out, digits);
}

char* write_number(char* out, const unsigned char* record, int offset) {
  const int kind = record[kKindAt];
  const bool extreme = offset == kMinAt || offset == kMaxAt;
  if (extreme && kind == kInt) {
    return std::to_chars(out, out + kLongestNumber, at<int64_t>(record, offset)).ptr;
  }
  if ((extreme && kind != kUint) || (offset >= kFirstFloatAt && offset <= kLastFloatAt)) {
    return write_float(out, at<double>(record, offset));
  }
  return std::to_chars(out, out + kLongestNumber, at<uint64_t>(record, offset)).ptr;
}

// Appends to memory that is large enough.
struct Out {
  char* next;

  void character(char value) { *next++ = value; }
  void text(const char* from, int64_t size) {
    if (size == 0) return;  // there may be no memory for no text
    std::memcpy(next, from, static_cast<size_t>(size));
    next += size;
  }
  void text(const OpscopeTexts* texts, uint32_t number) {
    const int64_t* spot = texts->spots + 2 * static_cast<int64_t>(number);
    text(texts->bytes + spot[0], spot[1] - spot[0]);
  }
  void integer(int64_t value) {
    next = std::to_chars(next, next + kLongestNumber, value).ptr;
    *next++ = ',';
  }
  void number(const unsigned char* record, int offset) {
    next = write_number(next, record, offset);
  }
};

}  // namespace

extern "C" int64_t opscope_csv(int64_t count, const void* records, const int64_t* moments,
                               const OpscopeTexts* labels, const OpscopeTexts* kinds,
                               const uint8_t* columns, int column_count, char* memory) {
  const auto* record = static_cast<const unsigned char*>(records);
  Out out{memory};
  for (int64_t line = 0; line < count; ++line, record += kRecordBytes, moments += 2) {
    out.text(labels, at<uint32_t>(record, kNodeAt));
    out.character(',');
    out.integer(at<uint32_t>(record, kCallAt));
    out.integer(moments[0]);
    out.integer(moments[1]);
    if (record[kIoAt] == kInput) {
      out.text("input,", 6);
    } else {
      out.text("output,", 7);
    }
    out.integer(at<uint32_t>(record, kSlotAt));
    out.text(kinds, at<uint32_t>(record, kShapeAt));
    for (int column = 0; column < column_count; ++column) {
      out.character(',');
      out.number(record, columns[column]);
    }
    out.text("\r\n", 2);
  }
  return out.next - memory;
}
