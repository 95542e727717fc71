"""Rows of CUDA tensors without making the training wait.

`engine.CudaRows` is what others use. Modules that end in `kernel`, with `kernel_basics`, hold the
Triton kernels and are imported only where Triton is; `fallback` does the same work with torch
operators. Nothing here imports torch or Triton before the first CUDA tensor comes.
"""
