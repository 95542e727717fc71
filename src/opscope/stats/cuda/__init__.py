"""Rows of CUDA tensors without making the training wait.

`engine.CudaRows` is what others use. `kernels` holds the Triton kernels and is imported only where
Triton is; `fallback` does the same work with torch operators. Nothing here imports torch or Triton
before the first CUDA tensor comes.
"""
