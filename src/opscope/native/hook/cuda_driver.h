// The driver of NVIDIA's GPUs, called past torch: nobody who listens to torch hears of it.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace opscope {

// Its functions return 0 if all went well; none is there without a driver.
struct CudaDriver {
  using Stream = void*;
  using Event = void*;
  int (*launch)(void* kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned shared, Stream, void** arguments, void** extra) = nullptr;
  int (*stream_is_capturing)(Stream, int* status) = nullptr;
  int (*event_create)(Event*, unsigned flags) = nullptr;
  int (*event_record)(Event, Stream) = nullptr;
  int (*event_query)(Event) = nullptr;
  int (*copy_to_host)(void* host, uint64_t address, size_t size, Stream) = nullptr;
  int (*host_memory)(void** made, size_t size, unsigned flags) = nullptr;
  bool whole = false;

  CudaDriver() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (library == nullptr) return;
    whole = find(library, "cuLaunchKernel", launch) &&
            find(library, "cuStreamIsCapturing", stream_is_capturing) &&
            find(library, "cuEventCreate", event_create) &&
            find(library, "cuEventRecord", event_record) &&
            find(library, "cuEventQuery", event_query) &&
            find(library, "cuMemcpyDtoHAsync_v2", copy_to_host) &&
            find(library, "cuMemHostAlloc", host_memory);
  }

 private:
  template <class Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }
};

inline const CudaDriver& cuda_driver() {
  static const CudaDriver found;
  return found;
}

// Whether what a stream is given is captured into a graph, or nothing may be given to it.
inline bool is_captured(CudaDriver::Stream stream) {
  int status = 0;
  return cuda_driver().stream_is_capturing(stream, &status) != 0 || status != 0;
}

}  // namespace opscope
