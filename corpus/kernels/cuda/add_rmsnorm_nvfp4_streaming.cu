/*
---
slug: add-rmsnorm-nvfp4-streaming-cuda
title: Residual addition, RMSNorm and NVFP4 quantization with the hardware conversion, any row length
op: add-rmsnorm-quantize
language: cuda
techniques: [fp4-intrinsics, kernel-fusion, cache-eviction-hints, vectorized-access]
architectures: [sm_90a, sm_100a]
dtypes: [bfloat16, float16, float32]
derived_from: add-rmsnorm-nvfp4-streaming
sizes:
  check: [[4, 64], [3, 48], [1, 16], [5, 5008]]
  bench: [8192, 32768]
expect_sass:
  sm_90a: ['LDG\.E\.128', 'LDG\.E\.EF\.128', 'STG\.E\.EF\.64']
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
  - title: "Zhang, Sennrich: Root Mean Square Layer Normalization"
    url: https://arxiv.org/abs/1910.07467
    licence: CC-BY-4.0
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x32768
  dtype: bfloat16
  baseline: add-rmsnorm-nvfp4-streaming
  baseline_ms: 0.4716
  measured_ms: 0.4057
  speedup: 1.162
  floor_fraction: 0.7099
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x32768
  dtype: bfloat16
  baseline: eager
  baseline_ms: 17.89
  measured_ms: 0.4057
  speedup: 44.1
  floor_fraction: 0.7099
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x32768
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.456
  measured_ms: 0.4057
  speedup: 3.589
  floor_fraction: 0.7099
---

s = x + residual, y = s / sqrt(mean(s^2) + eps) * weight along a row, and y quantized in blocks of 16;
with amax a block's largest magnitude and g the tensor's scale:

    scale = E4M3(g * amax / 6)      to nearest even, at most 448
    code  = E2M1((v * g) / scale)   to nearest even, at most 6; 0 where scale is 0

A thread block goes through its row twice, so rows may have any length: once for the sum of squares,
once to quantize. The second reading comes from L2, which holds the rows that are under way; it is the
last, so `__ldcs` lets the lines go, as `__stcs` does with the results. Each thread reads whole blocks
of 16 with 128-bit loads, of two tensors at once. add-rmsnorm-nvfp4-cuda holds a row in registers
instead and reads it once: better for the row lengths that fit.

On sm_100a and its kin the conversion is one instruction a pair, elsewhere it is emulated; the
division is exact, as nvfp4-quantize-cuda explains.
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

// The sum over the thread block, in every thread.
__device__ inline float block_sum(float value) {
    __shared__ float partial[32];
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(~0u, value, lane);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : 0.0f;
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(~0u, value, lane);
    return value;
}

template <typename T>
__device__ inline void add16(const uint4 (&x)[kBlock * sizeof(T) / 16],
                             const uint4 (&residual)[kBlock * sizeof(T) / 16], float (&v)[kBlock]) {
    float other[kBlock];
    unpack16<T>(x, v);
    unpack16<T>(residual, other);
#pragma unroll
    for (int i = 0; i < kBlock; ++i) v[i] += other[i];
}

template <typename T>
__global__ void __launch_bounds__(512, 1)
    add_rmsnorm_kernel(const uint4* __restrict__ x, const uint4* __restrict__ residual,
                       const uint4* __restrict__ weight, const float* __restrict__ global_scale,
                       uint2* __restrict__ codes, uint8_t* __restrict__ scales, int blocks,
                       float eps, bool swizzled) {
    constexpr int kVectors = kBlock * sizeof(T) / 16;
    const int64_t row = blockIdx.x;
    const float g = global_scale == nullptr ? 1.0f : __ldg(global_scale);
    x += row * blocks * kVectors;
    residual += row * blocks * kVectors;
    uint4 a[kVectors], b[kVectors], w[kVectors];
    float v[kBlock], squares = 0.0f;
    for (int block = threadIdx.x; block < blocks; block += blockDim.x) {
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
            a[i] = __ldg(x + int64_t(block) * kVectors + i);
            b[i] = __ldg(residual + int64_t(block) * kVectors + i);
        }
        add16<T>(a, b, v);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) squares = fmaf(v[i], v[i], squares);
    }
    const float factor = rsqrtf(block_sum(squares) / (float(blocks) * kBlock) + eps);
    for (int block = threadIdx.x; block < blocks; block += blockDim.x) {
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
            a[i] = __ldcs(x + int64_t(block) * kVectors + i);
            b[i] = __ldcs(residual + int64_t(block) * kVectors + i);
            w[i] = __ldg(weight + int64_t(block) * kVectors + i);
        }
        float scale[kBlock];
        add16<T>(a, b, v);
        unpack16<T>(w, scale);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) v[i] = v[i] * factor * scale[i];
        quantize_block(v, g, codes + row * blocks + block,
                       scales + scale_offset(row, block, blocks, swizzled));
    }
}

template <typename T>
cudaError_t launch(const void* x, const void* residual, const void* weight, const float* g,
                   void* codes, void* scales, int64_t rows, int blocks, float eps, bool swizzled,
                   int threads, cudaStream_t stream) {
    add_rmsnorm_kernel<T><<<unsigned(rows), threads, 0, stream>>>(
        static_cast<const uint4*>(x), static_cast<const uint4*>(residual),
        static_cast<const uint4*>(weight), g, static_cast<uint2*>(codes),
        static_cast<uint8_t*>(scales), blocks, eps, swizzled);
    return cudaGetLastError();
}

}  // namespace

// x, residual: `rows` rows of 16 * `blocks` contiguous values, weight: one such row, all 16-byte
// aligned; codes: 8 bytes a block; scales: 1 byte a block; g: one float on the device, or null for
// 1. dtype: 0 bfloat16, 1 float16, 2 float32.
extern "C" cudaError_t add_rmsnorm_nvfp4_streaming(const void* x, const void* residual,
                                                   const void* weight, const float* g, void* codes,
                                                   void* scales, int64_t rows, int blocks,
                                                   float eps, int swizzled, int dtype, int threads,
                                                   cudaStream_t stream) {
    if (dtype < 0 || dtype > 2 || threads < 32 || threads > 512 || threads % 32 != 0) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || blocks == 0) return cudaSuccess;
    const auto run = dtype == 0   ? launch<__nv_bfloat16>
                     : dtype == 1 ? launch<__half>
                                  : launch<float>;
    return run(x, residual, weight, g, codes, scales, rows, blocks, eps, swizzled != 0, threads,
               stream);
}
