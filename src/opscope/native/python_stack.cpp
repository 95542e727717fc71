// Memory for the frames of Python functions.
//
// CPython has them in chunks of 16 KiB per thread. A call that does not fit into the chunk gets another
// from the system and gives it back as it returns. Where that is a call which a program makes often,
// each takes two system calls and a page fault. Which call that is depends on how deep it is, and so on
// frames of ours below it: without this, a program that was lucky alone may not be under opscope.
#include <atomic>
#include <cstddef>

#include "api.h"

namespace {

constexpr size_t kChunk = 16 * 1024;
OpscopeArenas python;
std::atomic<void*> spare[8];  // chunks nobody uses; one thread needs one of them

void* allocate(void*, size_t size) {
  if (size == kChunk) {
    for (auto& each : spare) {
      if (each.load(std::memory_order_relaxed) == nullptr) continue;
      if (void* chunk = each.exchange(nullptr, std::memory_order_acquire)) return chunk;
    }
  }
  return python.allocate(python.context, size);
}

void release(void*, void* memory, size_t size) {
  if (size == kChunk) {
    for (auto& each : spare) {
      void* nothing = nullptr;
      if (each.compare_exchange_strong(nothing, memory, std::memory_order_release)) return;
    }
  }
  python.release(python.context, memory, size);
}

}  // namespace

extern "C" void opscope_keep_chunks(OpscopeArenas* arenas) {
  if (arenas->allocate == &allocate) return;
  python = *arenas;
  *arenas = {nullptr, &allocate, &release};
}
