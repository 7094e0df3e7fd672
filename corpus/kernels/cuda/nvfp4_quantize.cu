/*
---
slug: nvfp4-quantize-cuda
title: NVFP4 quantization with the hardware E2M1 conversion, one block of 16 per thread
op: quantize
language: cuda
techniques: [fp4-intrinsics, vectorized-access, register-caching]
architectures: [sm_90a, sm_100a]
dtypes: [bfloat16, float16, float32]
derived_from: nvfp4-quantize-emulated
sizes:
  check: [[4, 64], [3, 48], [1, 16], [130, 272]]
  bench: [16384, 8192]
expect_sass:
  sm_90a: ['LDG\.E\.128', 'STG\.E\.EF\.64']
  sm_100a: ['F2FP\S*E2M1', 'LDG\.E\.128', 'STG\.E\.EF\.64']
sources:
  - title: "CUDA Math API: FP4 conversion and data movement"
    url: https://docs.nvidia.com/cuda/cuda-math-api/cuda_math_api/group__CUDA__MATH__FP4__MISC.html
    licence: proprietary
  - title: "PTX ISA: cvt"
    url: https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt
    licence: proprietary
  - title: "Introducing NVFP4 for Efficient and Accurate Low-Precision Inference"
    url: https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/
    licence: proprietary
  - title: "Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., section 4.7: division with an FMA"
    url: https://doi.org/10.1007/978-3-319-76526-6
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: nvfp4-quantize-emulated
  baseline_ms: 0.2193
  measured_ms: 0.1074
  speedup: 2.042
  floor_fraction: 0.7523
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 8.246
  measured_ms: 0.1074
  speedup: 76.78
  floor_fraction: 0.7523
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.6284
  measured_ms: 0.1074
  speedup: 5.851
  floor_fraction: 0.7523
---

A row is cut into blocks of 16. With amax the block's largest magnitude and g the tensor's scale:

    scale = E4M3(g * amax / 6)      to nearest even, at most 448
    code  = E2M1((v * g) / scale)   to nearest even, at most 6; 0 where scale is 0

A code keeps its value's sign, also at zero; g is positive, and no value is NaN. Two codes share a
byte, the even element in the low nibble; scales stand in row-major order.

Each thread reads a whole block with 128-bit loads and keeps it in registers from the maximum to the
conversion, so every value is read once and no thread waits for another. With BLOCKS > 1 a thread issues
the loads of several blocks before it uses the first. Results are not read again here: `__stcs` marks
them for early eviction.

The division must round as IEEE division does, or ties (frequent with bfloat16 input) fall on the wrong
side. One division per element would cost more than the rest, so a quotient from the approximate
reciprocal gets one FMA correction. That is exact here: `scale` has 4 significant bits, so the remainder
is exact, and a quotient of a 24-bit by a 4-bit number is never closer than 2^-29 (relative) to the
middle of two floats unless it is a float itself, while the corrected quotient errs by under 2^-40
before its rounding.

On sm_100a and its kin the conversion is one instruction per pair. Elsewhere it is emulated by adding
2^23, which makes the adder round to nearest even at the wanted bit. E2M1 steps by 1/2 below 2, by 1 up
to 4 and by 2 up to 6, so its code is the least of three such roundings; no comparisons, no branches.
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#if defined(__CUDA_ARCH_SPECIFIC__) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__)
#define NVFP4_HARDWARE 1
#else
#error "cuda_fp4.h emulates the conversion on this target: build for sm_100a, sm_100f, sm_120a, ..."
#endif
#endif

namespace {

constexpr int kBlock = 16;
constexpr float kLargestCode = 6.0f;
constexpr float kLargestScale = 448.0f;

__host__ __device__ inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// a / divisor as IEEE division rounds it, for a divisor of at most 4 significant bits; `inverse` is
// 1 / divisor to within 2^-22.
__host__ __device__ inline float divide(float a, float divisor, float inverse) {
    const float quotient = a * inverse;
    return fmaf(fmaf(-quotient, divisor, a), inverse, quotient);
}

// E4M3(g * amax / 6) as its byte. 448 * 6 is exact, so clamping before the division changes nothing.
__host__ __device__ inline uint8_t encode_scale(float amax, float g) {
    const float reach = fminf(g * amax, kLargestScale * kLargestCode);
    const float scale = divide(reach, kLargestCode, 1.0f / kLargestCode);
    return __nv_cvt_float_to_fp8(scale, __NV_SATFINITE, __NV_E4M3);
}

__host__ __device__ inline float decode_scale(uint8_t byte) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)));
}

// |a / scale|, at most 6. An infinite a gives NaN in `divide`, and fminf then picks the 6.
__host__ __device__ inline float magnitude(float a, float scale, float inverse) {
    return fminf(fabsf(divide(a, scale, inverse)), kLargestCode);
}

// The bits of 2^23 + code for a magnitude of at most 6.
__host__ __device__ inline uint32_t emulate_code(float a) {
    constexpr float magic = 8388608.0f;  // 2^23: floats from here on are the integers
    const float below2 = fmaf(a, 2.0f, magic);
    const float below4 = a + (magic + 2.0f);
    const float above4 = fmaf(a, 0.5f, magic + 4.0f);
    return bits_of(fminf(fminf(below2, below4), above4));
}

// Eight E2M1 codes, the first in the lowest nibble, from magnitudes and the values with their signs.
[[maybe_unused]] __host__ __device__ inline uint32_t emulate8(const float (&a)[8], const float* v) {
    // The bits of 2^23 are 0x4B000000; shifted by 4 they are 0xB0000000, by more they drop out.
    uint32_t codes = 0u - (0x4B000000u + 0xB0000000u);
    uint32_t signs = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        codes += emulate_code(a[i]) << (4 * i);
        signs |= (bits_of(v[i]) >> (28 - 4 * i)) & (8u << (4 * i));
    }
    return codes | signs;
}

__device__ inline uint32_t encode8(const float (&a)[8], const float* v) {
#ifdef NVFP4_HARDWARE
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        const float2 pair = make_float2(copysignf(a[i], v[i]), copysignf(a[i + 1], v[i + 1]));
        word |= uint32_t(__nv_cvt_float2_to_fp4x2(pair, __NV_E2M1, cudaRoundNearest)) << (4 * i);
    }
    return word;
#else
    return emulate8(a, v);
#endif
}

__device__ inline void unpack(uint32_t word, float* out, __nv_bfloat16) {
    out[0] = __uint_as_float(word << 16);
    out[1] = __uint_as_float(word & 0xFFFF0000u);
}

__device__ inline void unpack(uint32_t word, float* out, __half) {
    const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&word));
    out[0] = pair.x;
    out[1] = pair.y;
}

__device__ inline void unpack(uint32_t word, float* out, float) { out[0] = __uint_as_float(word); }

template <typename T>
__device__ inline void quantize_block(const uint4 (&raw)[kBlock * sizeof(T) / 16], float g,
                                      uint2* codes, uint8_t* scale_byte) {
    constexpr int kPerWord = 4 / sizeof(T);
    float v[kBlock];
#pragma unroll
    for (int i = 0; i < kBlock / kPerWord; ++i) {
        const uint4 vec = raw[i / 4];
        const uint32_t word = i % 4 == 0 ? vec.x : i % 4 == 1 ? vec.y : i % 4 == 2 ? vec.z : vec.w;
        unpack(word, v + i * kPerWord, T());
    }
    float amax = 0.0f;
#pragma unroll
    for (int i = 0; i < kBlock; ++i) amax = fmaxf(amax, fabsf(v[i]));

    const uint8_t byte = encode_scale(amax, g);
    const float scale = decode_scale(byte);
    const float inverse = __fdividef(1.0f, scale);
    uint32_t words[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float a[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) a[i] = magnitude(v[8 * half + i] * g, scale, inverse);
        words[half] = encode8(a, v + 8 * half);
    }
    const bool empty = scale == 0.0f;  // then `inverse` is infinite and the codes mean nothing
    __stcs(codes, make_uint2(empty ? 0u : words[0], empty ? 0u : words[1]));
    __stcs(reinterpret_cast<unsigned char*>(scale_byte), byte);
}

template <typename T, int BLOCKS>
__global__ void __launch_bounds__(512, 1)
    quantize_kernel(const uint4* __restrict__ x, const float* __restrict__ global_scale,
                    uint2* __restrict__ codes, uint8_t* __restrict__ scales, int64_t count) {
    constexpr int kVectors = kBlock * sizeof(T) / 16;
    const float g = global_scale == nullptr ? 1.0f : __ldg(global_scale);
    const int64_t first = int64_t(blockIdx.x) * blockDim.x * BLOCKS + threadIdx.x;
    uint4 raw[BLOCKS][kVectors];
#pragma unroll
    for (int b = 0; b < BLOCKS; ++b) {
        const int64_t block = first + int64_t(b) * blockDim.x;
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
            if (block < count) raw[b][i] = __ldg(x + block * kVectors + i);
        }
    }
#pragma unroll
    for (int b = 0; b < BLOCKS; ++b) {
        const int64_t block = first + int64_t(b) * blockDim.x;
        if (block < count) quantize_block<T>(raw[b], g, codes + block, scales + block);
    }
}

template <typename T>
cudaError_t launch(const void* x, const float* g, void* codes, void* scales, int64_t count,
                   int threads, int blocks_per_thread, cudaStream_t stream) {
    const int64_t per_group = int64_t(threads) * blocks_per_thread;
    const unsigned grid = unsigned((count + per_group - 1) / per_group);
    const auto kernel = blocks_per_thread == 1   ? quantize_kernel<T, 1>
                        : blocks_per_thread == 2 ? quantize_kernel<T, 2>
                                                 : quantize_kernel<T, 4>;
    kernel<<<grid, threads, 0, stream>>>(static_cast<const uint4*>(x), g,
                                         static_cast<uint2*>(codes),
                                         static_cast<uint8_t*>(scales), count);
    return cudaGetLastError();
}

}  // namespace

// x: `count` blocks of 16 contiguous values, 16-byte aligned; codes: 8 bytes a block; scales: 1 byte
// a block; g: one float on the device, or null for 1. dtype: 0 bfloat16, 1 float16, 2 float32.
extern "C" cudaError_t nvfp4_quantize(const void* x, const float* g, void* codes, void* scales,
                                      int64_t count, int dtype, int threads, int blocks_per_thread,
                                      cudaStream_t stream) {
    if (threads < 32 || threads > 512 || dtype < 0 || dtype > 2 ||
        (blocks_per_thread != 1 && blocks_per_thread != 2 && blocks_per_thread != 4)) {
        return cudaErrorInvalidValue;
    }
    if (count == 0) return cudaSuccess;
    const auto run = dtype == 0   ? launch<__nv_bfloat16>
                     : dtype == 1 ? launch<__half>
                                  : launch<float>;
    return run(x, g, codes, scales, count, threads, blocks_per_thread, stream);
}
