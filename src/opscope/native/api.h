/* The C ABI of opscope's statistics library: no Python, no torch, called through ctypes or from
 * another library. Records and dtype numbers are those of opscope/native/shared.py. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define OPSCOPE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Fills in the kind of a record and all its numbers; touches no other byte.
 * Strides are in elements. `range` is null or {low, high}; then *in_range gets the number of
 * elements from low to high, both included. `threads` is an upper bound, and results do not depend
 * on it. Returns 0, or 1 if the dtype has no kernel or memory ran out. */
OPSCOPE_API int opscope_row(const void* data, int dtype, int ndim, const int64_t* sizes,
                            const int64_t* strides, int threads, const double* range,
                            uint64_t* in_range, void* record);

/* Seven numbers about two tensors of one dtype and shape (docs/statistics.md): mean |a-b|,
 * mean |b|, max |a-b|, pairs outside atol + rtol * |b|, pairs of finite elements, NaN in a, in b.
 * Returns as opscope_row does. */
OPSCOPE_API int opscope_pair(const void* a, const void* b, int dtype, int ndim,
                             const int64_t* sizes, const int64_t* a_strides,
                             const int64_t* b_strides, double rtol, double atol, int equal_nan,
                             int threads, double* out);

/* What the library needs of Python: DLPack's dltensor_from_py_object_no_sync, PyEval_SaveThread
 * and PyEval_RestoreThread. */
typedef struct {
  int (*dltensor_from_object)(void* object, void* dltensor);
  void* (*save_thread)(void);
  void (*restore_thread)(void*);
} OpscopePython;

/* opscope_row of a Python tensor in host memory; the caller holds the GIL. Returns -1 with a Python
 * exception set where the tensor does not let itself be described. */
OPSCOPE_API int opscope_row_of_object(const OpscopePython* python, void* object, int threads,
                                      void* record);

/* Numbered texts: `spots` has where each begins and ends in `bytes`. */
typedef struct {
  const char* bytes;
  const int64_t* spots;
} OpscopeTexts;

/* Writes `count` lines "label,task,stream,time,side,slot,kind,number,...\r\n" and returns their
 * bytes. `records` are 128 bytes each, whose node and shape are numbers of `labels` and `kinds`;
 * `moments` are the stream and the time of each; `columns` are byte offsets of numbers in a record.
 * `memory` must have room for all texts and for 25 bytes per number. */
OPSCOPE_API int64_t opscope_csv(int64_t count, const void* records, const int64_t* moments,
                                const OpscopeTexts* labels, const OpscopeTexts* kinds,
                                const uint8_t* columns, int column_count, char* memory);

/* Gives records the numbers and kinds of others, in turn: `pairs` are addresses, from and to. The
 * first byte of a record, which makes it valid, is written last. */
OPSCOPE_API void opscope_copy(const int64_t* pairs, int64_t count);

/* Fills in the records at `addresses` from rows of as many bytes: the kind, then the numbers. Rows
 * that count no elements are left out. The first byte of a record, which makes it valid, is written
 * last. */
OPSCOPE_API void opscope_place(const int64_t* addresses, const int64_t* rows, int64_t count);

/* Should this process leave with a code other than 0, the file `path` is replaced by one with the
 * code between two texts; it is written as `draft` first. Returns 1 where that cannot be known. */
OPSCOPE_API int opscope_on_leaving(const char* path, const char* draft, const char* before,
                                   const char* after);

/* What CPython gets memory for its objects and frames by: its PyObjectArenaAllocator. */
typedef struct {
  void* context;
  void* (*allocate)(void* context, size_t size);
  void (*release)(void* context, void* memory, size_t size);
} OpscopeArenas;

/* Replaces it by one that keeps some chunks of frames for the next call, unless it is that one. */
OPSCOPE_API void opscope_keep_chunks(OpscopeArenas* arenas);

/* The instruction set in use: "avx512", "avx2" or "baseline". */
OPSCOPE_API const char* opscope_features(void);

/* Use another instruction set, or the best again for "". Returns 1 if this machine has it not. */
OPSCOPE_API int opscope_force(const char* name);

#ifdef __cplusplus
}
#endif
