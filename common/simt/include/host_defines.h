// CUDA's qualifiers for g++, with their meanings on the CPU simulator.
//
// __noinline__ is missing on purpose, as in CUDA's own header under plain g++: libstdc++ writes
// __attribute__((__noinline__)) in <memory>, which a macro of that name would break.
#ifndef CUFLASH_SIMT_HOST_DEFINES_H_
#define CUFLASH_SIMT_HOST_DEFINES_H_

#ifndef __host__
#define __host__
#endif
#ifndef __device__
#define __device__
#endif
#ifndef __global__
#define __global__
#endif

// One worker thread runs one block at a time, so the threads (fibers) of one block share a
// thread_local array. That serves `extern __shared__` as well. Without __constinit g++ guards an
// array of __half by a hidden flag in the same memory, and the trace would show each CUDA thread
// reading and writing the flag: a race that is not in the kernel.
#ifndef __shared__
#ifdef __clang__
#define __shared__ thread_local
#else
#define __shared__ __constinit thread_local
#endif
#endif
#ifndef __constant__
#define __constant__
#endif
#ifndef __managed__
#define __managed__
#endif

// Always inlined, at every -O level: a copy that the linker could take from a file that is not
// instrumented would hide its accesses from the trace.
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif

#ifndef __align__
#define __align__(n) __attribute__((aligned(n)))
#endif
#ifndef __builtin_align__
#define __builtin_align__(n) __align__(n)
#endif

// Hints to nvcc that change no result.
#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif
#ifndef __maxnreg__
#define __maxnreg__(...)
#endif
#ifndef __grid_constant__
#define __grid_constant__
#endif
#ifndef __device_builtin__
#define __device_builtin__
#endif

#endif  // CUFLASH_SIMT_HOST_DEFINES_H_
