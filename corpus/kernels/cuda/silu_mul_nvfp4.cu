/*
---
slug: silu-mul-nvfp4-cuda
title: SiLU of a gate times its partner, quantized to NVFP4 with the hardware conversion
op: silu-mul-quantize
language: cuda
techniques: [fp4-intrinsics, kernel-fusion, vectorized-access, register-caching]
architectures: [sm_90a, sm_100a]
dtypes: [bfloat16, float16, float32]
derived_from: silu-mul-nvfp4-emulated
sizes:
  check: [[4, 64], [3, 48], [1, 16], [33, 272]]
  bench: [2048, 14336]
expect_sass:
  sm_90a: ['LDG\.E\.EF\.128', 'STG\.E\.EF\.64', 'MUFU\.EX2']
  sm_100a: ['F2FP\S*E2M1', 'LDG\.E\.EF\.128', 'STG\.E\.EF\.64']
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
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 2048x14336
  dtype: bfloat16
  baseline: silu-mul-nvfp4-emulated
  baseline_ms: 0.04275
  measured_ms: 0.04413
  speedup: 0.9687
  floor_fraction: 0.7107
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 2048x14336
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.062
  measured_ms: 0.04413
  speedup: 46.73
  floor_fraction: 0.7107
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 2048x14336
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1621
  measured_ms: 0.04413
  speedup: 3.673
  floor_fraction: 0.7107
---

A row of x is a gate and an up part of N each. v = silu(gate) * up is computed in float32, cut into
blocks of 16 along the row, and quantized; with amax a block's largest magnitude and g the tensor's
scale:

    scale = E4M3(g * amax / 6)      to nearest even, at most 448
    code  = E2M1((v * g) / scale)   to nearest even, at most 6; 0 where scale is 0

Each thread reads the whole block's gates and ups with 128-bit loads and keeps them in registers from
the product to the conversion, so nothing goes to memory between the two operators. Everything is
used once: `__ldcs` and `__stcs` mark it for early eviction, so that what stands in L2 (the weights
of the next product, say) stays there. With BLOCKS > 1 a thread issues the loads of several blocks
before it uses the first.

The sigmoid takes the approximate exponential and division, each within some units of 2^-23. The
division by the scale and the rounding are exact, as nvfp4-quantize-cuda explains; on sm_100a and its
kin the conversion is one instruction a pair, elsewhere it is emulated.
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

// Sixteen values of T from consecutive 16-byte vectors.
template <typename T>
__device__ inline void unpack16(const uint4* raw, float* v) {
    constexpr int kPerWord = 4 / sizeof(T);
#pragma unroll
    for (int i = 0; i < kBlock / kPerWord; ++i) {
        const uint4 vec = raw[i / 4];
        const uint32_t word = i % 4 == 0 ? vec.x : i % 4 == 1 ? vec.y : i % 4 == 2 ? vec.z : vec.w;
        unpack(word, v + i * kPerWord, T());
    }
}

// Codes of g * v as 8 bytes, and the byte of their scale. Results are not read again here: `__stcs`
// marks them for early eviction.
__device__ inline void quantize_block(float (&v)[kBlock], float g, uint2* codes,
                                      uint8_t* scale_byte) {
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

// Where the scale of a block of a row stands: row-major, or in tiles of 128 rows by 4 blocks.
__device__ inline int64_t scale_offset(int64_t row, int block, int blocks, bool swizzled) {
    if (!swizzled) return row * blocks + block;
    const int64_t tile = row / 128 * ((blocks + 3) / 4) + block / 4;
    const int in_tile = int(row % 128);
    return tile * 512 + in_tile % 32 * 16 + in_tile / 32 * 4 + block % 4;
}

template <typename T, typename Index, int BLOCKS>
__global__ void __launch_bounds__(512, 1)
    silu_mul_kernel(const uint4* __restrict__ x, const float* __restrict__ global_scale,
                    uint2* __restrict__ codes, uint8_t* __restrict__ scales, Index count,
                    int blocks, bool swizzled) {
    constexpr int kVectors = kBlock * sizeof(T) / 16;
    const float g = global_scale == nullptr ? 1.0f : __ldg(global_scale);
    const Index first = Index(blockIdx.x) * blockDim.x * BLOCKS + threadIdx.x;
    uint4 gates[BLOCKS][kVectors], ups[BLOCKS][kVectors];
#pragma unroll
    for (int b = 0; b < BLOCKS; ++b) {
        const Index index = first + Index(b) * blockDim.x;
        // Gates come first in a row: a block of them has as many ups before it as rows before it.
        const int64_t at = (int64_t(index) + int64_t(index / blocks) * blocks) * kVectors;
        if (index < count) {
#pragma unroll
            for (int i = 0; i < kVectors; ++i) {
                gates[b][i] = __ldcs(x + at + i);
                ups[b][i] = __ldcs(x + at + int64_t(blocks) * kVectors + i);
            }
        }
    }
#pragma unroll
    for (int b = 0; b < BLOCKS; ++b) {
        const Index index = first + Index(b) * blockDim.x;
        if (index >= count) return;
        float v[kBlock], up[kBlock];
        unpack16<T>(gates[b], v);
        unpack16<T>(ups[b], up);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) {
            v[i] = __fdividef(v[i], 1.0f + __expf(-v[i])) * up[i];
        }
        const int64_t at = scale_offset(index / blocks, int(index % blocks), blocks, swizzled);
        quantize_block(v, g, codes + index, scales + at);
    }
}

template <typename T, typename Index>
cudaError_t launch(const void* x, const float* g, void* codes, void* scales, int64_t count,
                   int blocks, bool swizzled, int threads, int blocks_per_thread,
                   cudaStream_t stream) {
    const int64_t per_group = int64_t(threads) * blocks_per_thread;
    const unsigned grid = unsigned((count + per_group - 1) / per_group);
    const auto kernel = blocks_per_thread == 1 ? silu_mul_kernel<T, Index, 1>
                                               : silu_mul_kernel<T, Index, 2>;
    kernel<<<grid, threads, 0, stream>>>(static_cast<const uint4*>(x), g,
                                         static_cast<uint2*>(codes),
                                         static_cast<uint8_t*>(scales), Index(count), blocks,
                                         swizzled);
    return cudaGetLastError();
}

template <typename T>
cudaError_t launch(const void* x, const float* g, void* codes, void* scales, int64_t count,
                   int blocks, bool swizzled, int threads, int blocks_per_thread,
                   cudaStream_t stream) {
    // A division in 64 bits costs as much as several conversions. The index runs past the end by
    // less than one group of threads.
    const auto run = count < (int64_t(1) << 31) ? launch<T, uint32_t> : launch<T, int64_t>;
    return run(x, g, codes, scales, count, blocks, swizzled, threads, blocks_per_thread, stream);
}

}  // namespace

// x: `rows` rows of 2 * 16 * `blocks` contiguous values, 16-byte aligned; codes: 8 bytes a block;
// scales: 1 byte a block; g: one float on the device, or null for 1. dtype: 0 bfloat16, 1 float16,
// 2 float32.
extern "C" cudaError_t silu_mul_nvfp4(const void* x, const float* g, void* codes, void* scales,
                                      int64_t rows, int blocks, int swizzled, int dtype,
                                      int threads, int blocks_per_thread, cudaStream_t stream) {
    if (threads < 32 || threads > 512 || dtype < 0 || dtype > 2 ||
        (blocks_per_thread != 1 && blocks_per_thread != 2)) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || blocks == 0) return cudaSuccess;
    const auto run = dtype == 0   ? launch<__nv_bfloat16>
                     : dtype == 1 ? launch<__half>
                                  : launch<float>;
    return run(x, g, codes, scales, rows * blocks, blocks, swizzled != 0, threads,
               blocks_per_thread, stream);
}
