/*
---
slug: conv-transpose-wgmma-cuda
title: Transposed convolution with wgmma and resident filters, empty outputs written meanwhile
op: conv-transpose
language: cuda
techniques:
  - tensor-cores
  - implicit-gemm
  - structural-sparsity
  - warp-specialization
  - vectorized-access
  - persistent-kernel
architectures: [sm_90a]
dtypes: [float16, bfloat16]
derived_from: conv-transpose-plain
sizes:
  check:
    - [1, 3, 5, 4, 3, 5, 3, 2, 1, 2, 0, 1]
    - [2, 20, 70, 3, 6, 9, 3, 2, 1, 2, 1, 1]
    - [3, 32, 64, 5, 17, 32, 3, 2, 1, 2, 0, 0]
    - [1, 16, 5, 3, 7, 11, 3, 1, 1, 1, 0, 1]
    - [2, 32, 64, 7, 13, 40, 3, 3, 2, 3, 2, 1]
    - [1, 48, 9, 37, 16, 3, 2, 0, 2, 1, 0]
    - [1, 3, 2, 19, 4, 1, 3, 2, 0, 0]
  bench: [16, 32, 64, 16, 32, 32, 3, 2, 1, 2, 0, 0]
expect_sass:
  sm_90a: ['HGMMA\.64x136x16\.F32\.BF16', 'HGMMA\.64x136x16\.F32 ', 'UBLKCP', 'STG\.E\.128', 'SYNCS']
sources:
  - title: "PTX ISA: asynchronous warpgroup-level matrix instructions, matrix descriptors"
    url: https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions
    licence: proprietary
  - title: "Dumoulin, Visin: A guide to convolution arithmetic for deep learning"
    url: https://arxiv.org/abs/1603.07285
    licence: proprietary
  - title: "PyTorch: torch.nn.ConvTranspose3d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose3d.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: conv-transpose-plain
  baseline_ms: 67.23
  measured_ms: 0.1358
  speedup: 495.1
  floor_fraction: 0.5237
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.149
  measured_ms: 0.1358
  speedup: 8.461
  floor_fraction: 0.5237
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.149
  measured_ms: 0.1358
  speedup: 8.461
  floor_fraction: 0.5237
---

A transposed convolution whose dilations are multiples of its strides (a stride of 1 among them):
along each dimension taps reach the outputs of one residue of the stride only. Those are a dense
convolution of the image; all others are the bias. With a stride of 2 in three dimensions that is
seven of eight outputs, so the work is to write, and the products have to hide behind that.

The dense part is outputs [64 channels, 136 positions] += filters [64, 16] image [16, 136], one
wgmma of 64 x 136 x 16 for each tap and 16 channels. Both operands lie in shared memory as rows of
16 bytes, 8 channels of a position, one row after another and the next 8 channels further on: core
matrices without swizzle. In that order a tap's shift by a position, a row or a plane is a shift of
the operand's address, which needs 16 bytes of alignment and has them: one copy of the image serves
all taps. 136 positions are four rows of 32 with the two between that the window of 3 reads across;
what comes out for those is thrown away. Rows of an image are at most 136 long.

A block keeps the filters of all taps (110 KB for 27 taps of 32 x 64 bfloat16), fetched once in one
bulk copy, and walks along the depth of the image with a ring of planes: each plane is read once and
serves three depths. Four warps read planes: a lane loads 32 channels of a position, neighbouring
lanes neighbouring positions, so that loads are coalesced although the image has its channels first,
and stores them as four rows of 16 bytes. Two warpgroups multiply in turn, one depth each, so that
one stores its outputs while the other's products run. A barrier for each slot of the ring counts
the readers that are done; before its arrival a warp waits for all of its lanes, as one that still
looks for the slot's phase would miss it.

Sums go to shared memory as 16 bits, [channel, position]. A channel's outputs of a tile are whole
rows, and contiguous: a lane makes 16 aligned bytes of them at a time, of which every second row and
every second element are the bias, whatever the row's alignment. At both ends of a run up to seven
elements are stored one by one. The four reading warps also fill the planes that no tap reaches, a
share between two planes that they read, so that these stores are spread over the whole run.
What did not pay: warps' stores that begin at multiples of 128 bytes, for which some lanes idle
(`aligned`, 2 % slower here), and to fill in half of the time (`haste` 2, 10 % slower: what is filled
early leaves the products' stores alone at the end). A first version, whose reading warps waited for
the loads of a few channels at a time, was bound by them; now a lane has 32 loads under way.

Filters are rearranged by a small kernel; this one starts meanwhile (dependent launch).

On an H200 the image of `bench` in bfloat16 took 0.136 ms, `conv-transpose-parity` in Triton 0.214 and
PyTorch 1.25; to read and write at the speed of a copy would take 0.071. In Triton the taps along a
width are no shifts of an address, and rows of odd length get stores of two bytes.
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cuda/ptx>
#include <type_traits>

namespace {

namespace ptx = cuda::ptx;

constexpr int kRows = 64;            // output channels of a block: M of a wgmma
constexpr int kColumns = 136;        // positions of a tile: N of a wgmma
constexpr int kSums = kColumns / 2;  // of a thread
constexpr int kCore = 16;            // bytes of 8 channels: a row of a core matrix
constexpr int kHelpers = 4;          // warps that read the image and fill
constexpr int kThreads = 32 * (8 + kHelpers);  // beside two warpgroups that multiply
constexpr int kMaxRing = 16;         // planes
constexpr int kVectors = 4;          // that a lane makes before it stores them

// Sizes of one convolution. Along each dimension the live outputs are those o = stride * q + first;
// q gets tap k from image position q + origin + (taps - 1 - k) * step.
struct Axis {
    int image, out, live, taps, stride, first, step, origin;
};

struct Shape {
    Axis d, h, w;
    int channels;      // multiple of 16
    int in_channels;   // of the image
    int out_channels;
    int64_t stride_n, stride_c, stride_d, stride_h, stride_w;  // of the image, in elements
    int pitch;         // positions from one row of a tile to the next
    int rows;          // live rows of a tile
    int row_blocks;    // tiles of a plane
    int plane;         // positions of a plane of the ring
    int depths;        // live depths of a segment
    int segments_deep; // segments of a column
    int segments;
    int span;          // planes that a tile reads from, first to last
    int ring;          // planes in shared memory
    int batch;
    int empty;         // planes without live outputs, of all images and channels
    int haste;         // how many times the even share of these is filled for each plane read
    int unit;          // a lane's first vector of a run lies at a multiple of so many elements
    int vectors, last_vectors;  // of a run, places of 16 bytes that hold it wherever it begins
    uint32_t per_row, per_run, per_last_run;  // 2^31 / w.out, 2^31 / vectors, and 1 more
};

// --- PTX

template <typename T>
__device__ inline void multiply(float (&d)[kSums], uint64_t a, uint64_t b, int accumulate) {
#define WGMMA(TYPE)                                                                               \
    asm volatile(                                                                                 \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %70, 0;\n"                                              \
        "wgmma.mma_async.sync.aligned.m64n136k16.f32." TYPE "." TYPE                              \
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "           \
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "   \
        "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "   \
        "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67}, "  \
        "%68, %69, p, 1, 1, 0, 0;\n}\n"                                                           \
        : SUMS_4(0), SUMS_4(4), SUMS_4(8), SUMS_4(12), SUMS_4(16), SUMS_4(20), SUMS_4(24),        \
          SUMS_4(28), SUMS_4(32), SUMS_4(36), SUMS_4(40), SUMS_4(44), SUMS_4(48), SUMS_4(52),     \
          SUMS_4(56), SUMS_4(60), SUMS_4(64)                                                      \
        : "l"(a), "l"(b), "r"(accumulate))
#define SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
    if constexpr (std::is_same_v<T, __half>) {
        WGMMA("f16");
    } else {
        WGMMA("bf16");
    }
#undef SUMS_4
#undef WGMMA
}

__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_end() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ inline uint32_t address(const void* shared) {
    return uint32_t(__cvta_generic_to_shared(shared));
}

// A wgmma operand that lies as rows of 16 bytes (8 channels) one after another, and the next 8
// channels `beside` bytes further: core matrices without swizzle, so a tap's shift of the rows is
// one of the address.
__device__ inline uint64_t descriptor(uint32_t at, uint32_t beside) {
    constexpr uint64_t below = 8 * kCore;
    return uint64_t(at >> 4) | uint64_t(beside >> 4) << 16 | below >> 4 << 32;
}

__device__ inline void wait(uint64_t* barrier, uint32_t parity) {
    while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
    }
}

__device__ inline void arrive(uint64_t* barrier) {
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, barrier);
}

__device__ inline void init(uint64_t* barrier, int count) { ptx::mbarrier_init(barrier, count); }

__device__ inline void copy_in(void* shared, const void* global, uint32_t bytes,
                               uint64_t* barrier) {
    constexpr uint32_t kPart = 16384;
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, barrier,
                                   bytes);
    for (uint32_t at = 0; at < bytes; at += kPart) {
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, static_cast<char*>(shared) + at,
                           static_cast<const char*>(global) + at, min(bytes - at, kPart), barrier);
    }
}

// Programmatic dependent launch: from where the next kernel may start, and from where on what the
// kernel before wrote is there.
__device__ inline void let_next_start() { asm volatile("griddepcontrol.launch_dependents;"); }
__device__ inline void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

__device__ inline void publish() { ptx::fence_proxy_async(ptx::space_shared); }

__device__ inline void store16(uint16_t* at, uint4 value) { *reinterpret_cast<uint4*>(at) = value; }
// --- end of PTX

struct Segment {
    int image, row_block, depth0, depths;
};

__device__ inline Segment segment_of(const Shape& s, int index) {
    Segment r;
    const int column = index / s.segments_deep;
    r.depth0 = index % s.segments_deep * s.depths;
    r.depths = min(s.depths, s.d.live - r.depth0);
    r.image = column / s.row_blocks;
    r.row_block = column % s.row_blocks;
    return r;
}

struct Barriers {
    uint64_t full[kMaxRing], empty[kMaxRing], filters;
};

// A plane of the ring, written by all helpers: rows of 16 bytes, each 8 channels of a position.
__device__ inline void read_plane(const Shape& s, const uint16_t* __restrict__ x, const Segment& g,
                                  int depth, char* slot, int thread) {
    constexpr int kGroups = 4;  // of 8 channels, read together
    const int used = (s.rows + (s.h.taps - 1) * s.h.step) * s.pitch;
    const bool inside = unsigned(depth) < unsigned(s.d.image);
    for (int position = thread; position < used; position += kHelpers * 32) {
        const int row = position / s.pitch;
        const int h = g.row_block * s.rows + s.h.origin + row;
        const int w = s.w.origin + position - row * s.pitch;
        const bool ok = inside && unsigned(h) < unsigned(s.h.image) &&
                        unsigned(w) < unsigned(s.w.image);
        const uint16_t* from = x + g.image * s.stride_n + depth * s.stride_d + h * s.stride_h +
                               w * s.stride_w;
        for (int first = 0; first < s.channels; first += 8 * kGroups) {
            uint16_t raw[8 * kGroups] = {};
            if (ok && first + 8 * kGroups <= s.in_channels) {
#pragma unroll
                for (int c = 0; c < 8 * kGroups; ++c) raw[c] = __ldg(from + c * s.stride_c);
            } else if (ok) {
#pragma unroll
                for (int c = 0; c < 8 * kGroups; ++c) {
                    if (first + c < s.in_channels) raw[c] = __ldg(from + c * s.stride_c);
                }
            }
            from += 8 * kGroups * s.stride_c;
#pragma unroll
            for (int i = 0; i < kGroups; ++i) {
                if (first + 8 * i >= s.channels) break;
                uint32_t words[4];
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    words[k] = raw[8 * i + 2 * k] | uint32_t(raw[8 * i + 2 * k + 1]) << 16;
                }
                *reinterpret_cast<uint4*>(slot + ((first / 8 + i) * s.plane + position) * kCore) =
                    uint4{words[0], words[1], words[2], words[3]};
            }
        }
    }
}

// A plane without live outputs: all bias.
__device__ inline void fill(const Shape& s, const uint16_t* bias, uint16_t* out, unsigned index,
                            int lane) {
    const unsigned each = s.d.out - s.d.live;
    const unsigned channel = index / each, nth = index - channel * each;
    const unsigned others = s.d.stride - 1, period = nth / others, residue = nth - period * others;
    const int depth = period * s.d.stride + residue + (int(residue) >= s.d.first);
    const uint32_t value = bias == nullptr ? 0 : bias[channel % s.out_channels] * 0x10001u;
    const int64_t size = int64_t(s.h.out) * s.w.out;
    const int64_t begin = (int64_t(channel) * s.d.out + depth) * size, end = begin + size;
    // Lanes begin at a multiple of 128 bytes: a store of a warp is for whole lines.
#pragma unroll 4
    for (int64_t at = (begin & ~int64_t(63)) + lane * 8; at < end; at += 32 * 8) {
        if (at >= begin && at + 8 <= end) store16(out + at, uint4{value, value, value, value});
    }
    const int64_t inner = min(end, (begin + 7) & ~int64_t(7));
    const int64_t outer = max(inner, end & ~int64_t(7));
    if (lane < int(inner - begin)) out[begin + lane] = uint16_t(value);
    if (lane < int(end - outer)) out[outer + lane] = uint16_t(value);
}

// One output of a tile's run: element `at` of it.
__device__ inline uint16_t element(const Shape& s, const uint16_t* sums, uint16_t bias, int at) {
    const int row = at / s.w.out, column = at - row * s.w.out;
    const int j = row / s.h.stride, w = column / s.w.stride;
    const bool live = row - j * s.h.stride == s.h.first && column - w * s.w.stride == s.w.first;
    return live ? sums[j * s.pitch + w] : bias;
}

// 8 outputs of a tile's run, from element `at` on, which all lie in it.
template <bool TWO>
__device__ inline uint4 elements(const Shape& s, const uint16_t* sums, uint16_t bias, int at) {
    uint32_t words[4];
    if constexpr (TWO) {
        // Rows are at least 8 long: of two neighbouring ones one is live.
        const int row = int(uint64_t(at) * s.per_row >> 31);
        int column = at - row * s.w.out;
        const bool live = (row & 1) == s.h.first;
        const int j = live ? row >> 1 : (row + 1) >> 1;
        if (!live) column -= s.w.out;
        column -= s.w.first;
        const int w = (column + 1) >> 1, shift = (column & 1) * 16;
        const uint32_t other = uint32_t(bias) << (16 - shift);
        const uint16_t* const from = sums + j * s.pitch + w;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t value = unsigned(w + i) < unsigned(s.w.live) ? from[i] : bias;
            words[i] = value << shift | other;
        }
    } else {
        int row = at / s.w.out, column = at - row * s.w.out;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            uint32_t pair[2];
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const int j = row / s.h.stride, w = column / s.w.stride;
                const bool live =
                    row - j * s.h.stride == s.h.first && column - w * s.w.stride == s.w.first;
                pair[k] = live ? sums[j * s.pitch + w] : bias;
                if (++column == s.w.out) {
                    column = 0;
                    ++row;
                }
            }
            words[i] = pair[0] | pair[1] << 16;
        }
    }
    return {words[0], words[1], words[2], words[3]};
}

// A tile's outputs of a warp's 16 channels, from shared memory: a run of whole rows a channel.
template <bool TWO>
__device__ inline void store_runs(const Shape& s, const uint16_t* sums, const uint16_t* bias,
                                  uint16_t* out, const Segment& g, int depth, int channel0,
                                  int lane) {
    const int channels = min(16, s.out_channels - channel0);
    const int row0 = g.row_block * s.rows * s.h.stride;
    const bool last = g.row_block == s.row_blocks - 1;
    const int run = ((last ? s.h.out : row0 + s.rows * s.h.stride) - row0) * s.w.out;
    const int64_t step = int64_t(s.d.out) * s.h.out * s.w.out;
    const int64_t base =
        (int64_t(g.image) * s.out_channels + channel0) * step +
        (int64_t(s.d.stride * depth + s.d.first) * s.h.out + row0) * s.w.out;
    const int vectors = last ? s.last_vectors : s.vectors;
    const uint32_t per_run = last ? s.per_last_run : s.per_run;
    const int total = channels * vectors;
    for (int first = lane; first < total; first += 32 * kVectors) {
        uint4 values[kVectors];
        uint16_t* to[kVectors];
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
            const int index = first + 32 * i;
            const int channel = int(uint64_t(index) * per_run >> 31);
            const int64_t begin = base + channel * step;
            const int at = (index - channel * vectors) * 8 - (int(begin) & (s.unit - 1));
            to[i] = nullptr;
            if (index < total && at >= 0 && at + 8 <= run) {
                const uint16_t filler = bias == nullptr ? 0 : bias[channel0 + channel];
                values[i] = elements<TWO>(s, sums + channel * kColumns, filler, at);
                to[i] = out + (begin + at);
            }
        }
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
            if (to[i] != nullptr) store16(to[i], values[i]);
        }
    }
    // What lies before the first and after the last 16 aligned bytes: a lane for each end.
    const int channel = lane / 2;
    if (channel >= channels) return;
    const int64_t begin = base + channel * step;
    const int before = int(begin & 7);
    const int head = before == 0 ? 0 : min(run, 8 - before);
    const int tail = max(head, ((before + run) & ~7) - before);
    const uint16_t filler = bias == nullptr ? 0 : bias[channel0 + channel];
    if (TWO && run >= 8) {
        const int at = lane % 2 ? run - 8 : 0;
        const uint4 found = elements<TWO>(s, sums + channel * kColumns, filler, at);
        const uint32_t words[4] = {found.x, found.y, found.z, found.w};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const bool mine = lane % 2 ? at + i >= tail : i < head;
            if (mine) out[begin + at + i] = uint16_t(words[i / 2] >> (i % 2 * 16));
        }
    } else {
        const int to = lane % 2 ? run : head;
        for (int at = lane % 2 ? tail : 0; at < to; ++at) {
            out[begin + at] = element(s, sums + channel * kColumns, filler, at);
        }
    }
}

template <typename T>
__device__ inline uint32_t rounded(float low, float high) {
    if constexpr (std::is_same_v<T, __half>) {
        const __half2 pair = __floats2half2_rn(low, high);
        return reinterpret_cast<const uint32_t&>(pair);
    } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return reinterpret_cast<const uint32_t&>(pair);
    }
}

template <typename T>
__device__ inline float widened(const uint16_t* bias, int channel) {
    return float(reinterpret_cast<const T*>(bias)[channel]);
}

// Shared memory: filters [taps][channels / 8][64][8], ring [planes][channels / 8][positions][8],
// sums [2][64][kColumns], barriers.
template <typename T, bool TWO>
__global__ void __launch_bounds__(kThreads, 1)
    convolve(const __grid_constant__ Shape s, const uint16_t* __restrict__ x,
             const uint16_t* __restrict__ filters, const uint16_t* __restrict__ bias,
             uint16_t* __restrict__ out) {
    extern __shared__ __align__(128) char memory[];
    const int taps = s.d.taps * s.h.taps * s.w.taps;
    const int filter_bytes = taps * s.channels * kRows * 2;
    const int plane_bytes = s.plane * s.channels * 2;
    char* const ring = memory + filter_bytes;
    uint16_t* const staged = reinterpret_cast<uint16_t*>(ring + s.ring * plane_bytes);
    Barriers& barriers = *reinterpret_cast<Barriers*>(staged + 2 * kRows * kColumns);
    const int warp = __shfl_sync(0xFFFFFFFF, int(threadIdx.x) / 32, 0), lane = threadIdx.x % 32;
    const int block_channel = blockIdx.y * kRows;

    if (threadIdx.x == 0) {
        for (int i = 0; i < s.ring; ++i) {
            init(&barriers.full[i], kHelpers);
            init(&barriers.empty[i], 8);
        }
        init(&barriers.filters, 1);
        publish();
    }
    __syncthreads();

    const bool is_producer_warp = warp >= 8;
    if (is_producer_warp) {
        if (warp == 8 && lane == 0) {
            wait_for_previous();
            copy_in(memory, filters + int64_t(blockIdx.y) * (filter_bytes / 2), filter_bytes,
                    &barriers.filters);
        }
        // Planes of the image as soon as there is room for them, and between two of them a share of
        // the planes to fill, so that these are written while others are computed.
        const unsigned workers = gridDim.x * gridDim.y * kHelpers;
        unsigned next = (blockIdx.y * gridDim.x + blockIdx.x) * kHelpers + warp - 8;
        int planes = 0;
        for (int index = blockIdx.x; index < s.segments; index += gridDim.x) {
            planes += segment_of(s, index).depths + s.span - 1;
        }
        const int mine = next < unsigned(s.empty) ? (s.empty - next - 1) / workers + 1 : 0;
        const int share = planes > 0 ? s.haste * ((mine + planes - 1) / planes) : 0;
        int slot = 0, round = 0;
        for (int index = blockIdx.x; index < s.segments; index += gridDim.x) {
            const Segment g = segment_of(s, index);
            for (int depth = 0; depth < g.depths + s.span - 1; ++depth) {
                if (round > 0) wait(&barriers.empty[slot], (round - 1) & 1);
                read_plane(s, x, g, g.depth0 + s.d.origin + depth, ring + slot * plane_bytes,
                           (warp - 8) * 32 + lane);
                publish();
                __syncwarp();
                if (lane == 0) arrive(&barriers.full[slot]);
                if (++slot == s.ring) {
                    slot = 0;
                    ++round;
                }
                for (int i = 0; i < share && next < unsigned(s.empty); ++i, next += workers) {
                    fill(s, bias, out, next, lane);
                }
            }
        }
        for (; next < unsigned(s.empty); next += workers) fill(s, bias, out, next, lane);
        return;
    }

    const int consumer = warp / 4, row = warp % 4 * 16 + lane / 4;
    uint16_t* const sums = staged + (consumer * kRows + warp % 4 * 16) * kColumns;
    int tile = 0, first_plane = 0;   // of the block, first_plane of the segment
    int released = 0;
    const auto release = [&](int before) {
        for (; released < before; ++released) {
            const int slot = released % s.ring;
            wait(&barriers.full[slot], released / s.ring & 1);
            __syncwarp();  // no lane may still look for a phase that is over
            if (lane == 0) arrive(&barriers.empty[slot]);
        }
    };
    wait(&barriers.filters, 0);
    for (int index = blockIdx.x; index < s.segments; index += gridDim.x) {
        const Segment g = segment_of(s, index);
        const int planes = g.depths + s.span - 1;
        for (int depth = (tile & 1) == consumer ? 0 : 1; depth < g.depths; depth += 2) {
            release(first_plane + depth);
            float d[kSums];
            int accumulate = 0;
            wgmma_begin();
            for (int kd = 0; kd < s.d.taps; ++kd) {
                const int plane = first_plane + depth + kd * s.d.step;
                const int slot = plane % s.ring;
                wait(&barriers.full[slot], plane / s.ring & 1);
                const uint32_t image = address(ring + slot * plane_bytes);
                for (int kh = 0; kh < s.h.taps; ++kh) {
                    for (int kw = 0; kw < s.w.taps; ++kw) {
                        const int tap = (kd * s.h.taps + kh) * s.w.taps + kw;
                        uint32_t a = address(memory) + tap * (s.channels * kRows * 2);
                        uint32_t b = image + (kh * s.h.step * s.pitch + kw * s.w.step) * kCore;
                        for (int c = 0; c < s.channels; c += 16) {
                            multiply<T>(d, descriptor(a, kRows * kCore),
                                        descriptor(b, s.plane * kCore), accumulate);
                            accumulate = 1;
                            a += 2 * kRows * kCore;
                            b += 2 * s.plane * kCore;
                        }
                    }
                }
            }
            wgmma_end();
            // What this warpgroup's next tile does not read.
            release(depth + 2 < g.depths ? first_plane + depth + 2 : first_plane + planes);

            float add[2] = {0.f, 0.f};
            if (bias != nullptr) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int channel = block_channel + row + 8 * i;
                    if (channel < s.out_channels) add[i] = widened<T>(bias, channel);
                }
            }
            __syncwarp();
            uint32_t* const to = reinterpret_cast<uint32_t*>(sums + lane / 4 * kColumns) + lane % 4;
#pragma unroll
            for (int i = 0; i < kSums; i += 4) {
                to[i] = rounded<T>(d[i] + add[0], d[i + 1] + add[0]);
                to[i + 4 * kColumns] = rounded<T>(d[i + 2] + add[1], d[i + 3] + add[1]);
            }
            __syncwarp();
            store_runs<TWO>(s, sums, bias, out, g, g.depth0 + depth,
                            block_channel + warp % 4 * 16, lane);
        }
        tile += g.depths;
        first_plane += planes;
    }
    release(first_plane);
}

// Filters [channels, out_channels, taps] as [blocks][taps, last first][channels / 8][64][8], with
// zeros where there is none.
__global__ void arrange(const uint16_t* __restrict__ weight, uint16_t* __restrict__ filters,
                        int in_channels, int out_channels, int channels, int taps) {
    let_next_start();
    const int total = (out_channels + kRows - 1) / kRows * taps * channels * kRows;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < total; at += gridDim.x * blockDim.x) {
        const int row = at / 8 % kRows;
        int rest = at / (8 * kRows);
        const int c = rest % (channels / 8) * 8 + at % 8;
        rest /= channels / 8;
        const int tap = taps - 1 - rest % taps, channel = rest / taps * kRows + row;
        const bool ok = c < in_channels && channel < out_channels;
        filters[at] = ok ? weight[(int64_t(c) * out_channels + channel) * taps + tap] : uint16_t(0);
    }
}

int divided(int a, int b) { return (a + b - 1) / b; }

// What follows from the sizes; false where the kernel cannot take them.
bool plan(Shape& s, int processors, int limit, int& blocks, int& bytes) {
    s.pitch = s.w.live + (s.w.taps - 1) * s.w.step;
    const int beside = (s.w.taps - 1) * s.w.step, below = (s.h.taps - 1) * s.h.step;
    int rows = (kColumns + beside) / s.pitch;
    if (rows < 1) return false;
    s.row_blocks = divided(s.h.live, rows < s.h.live ? rows : s.h.live);
    s.rows = divided(s.h.live, s.row_blocks);
    s.row_blocks = divided(s.h.live, s.rows);
    s.plane = below * s.pitch + beside + kColumns;
    if (s.plane < (s.rows + below) * s.pitch) s.plane = (s.rows + below) * s.pitch;
    s.span = (s.d.taps - 1) * s.d.step + 1;
    const int taps = s.d.taps * s.h.taps * s.w.taps;
    const int64_t fixed =
        int64_t(taps) * s.channels * kRows * 2 + 2 * kRows * kColumns * 2 + sizeof(Barriers);
    const int64_t plane_bytes = int64_t(s.plane) * s.channels * 2;
    const int64_t ring = (limit - fixed) / plane_bytes;
    // Both warpgroups, a depth apart.
    if (fixed >= limit || ring < s.span + 1 || s.span + 1 > kMaxRing) return false;
    if (s.plane * kCore >= 1 << 18) return false;
    s.ring = int(ring < kMaxRing ? ring : kMaxRing);
    if (s.ring > s.span + 4) s.ring = s.span + 4;
    bytes = int(fixed + s.ring * plane_bytes);
    const int parts = divided(s.out_channels, kRows);
    blocks = processors / parts > 1 ? processors / parts : 1;
    const int64_t columns = int64_t(s.batch) * s.row_blocks;
    int64_t best = INT64_MAX;
    for (int pieces = 1; pieces <= s.d.live; ++pieces) {
        const int depths = divided(s.d.live, pieces);
        const int deep = divided(s.d.live, depths);
        const int64_t turns = (columns * deep + blocks - 1) / blocks;
        // Reading planes costs about a third of multiplying them.
        const int64_t cost = turns * (3 * depths + s.span - 1);
        if (cost < best) {
            best = cost;
            s.depths = depths;
            s.segments_deep = deep;
        }
    }
    const int64_t segments = columns * s.segments_deep;
    if (segments > INT32_MAX) return false;
    s.segments = int(segments);
    const int64_t empty = int64_t(s.batch) * s.out_channels * (s.d.out - s.d.live);
    const int64_t run = int64_t(s.rows) * s.h.stride * s.w.out;
    const int64_t last_run = int64_t(s.h.out) * s.w.out - (s.row_blocks - 1) * run;
    const int64_t longest = (run > last_run ? run : last_run) + 2 * s.unit;
    // Products with the reciprocals are exact up to here.
    if (longest * s.w.out >= int64_t(1) << 31 || longest * longest / 4 >= int64_t(1) << 31 ||
        empty >= int64_t(1) << 31) {
        return false;
    }
    s.empty = int(empty);
    s.vectors = divided(int(run) + s.unit - 1, s.unit) * (s.unit / 8);
    s.last_vectors = divided(int(last_run) + s.unit - 1, s.unit) * (s.unit / 8);
    const uint64_t one = uint64_t(1) << 31;
    s.per_row = uint32_t(one / s.w.out + 1);
    s.per_run = uint32_t(one / s.vectors + 1);
    s.per_last_run = uint32_t(one / s.last_vectors + 1);
    return true;
}

template <typename T, bool TWO>
cudaError_t launch(const Shape& s, const void* x, const void* filters, const void* bias, void* out,
                   int blocks, int parts, int bytes, cudaStream_t stream) {
    const auto kernel = convolve<T, TWO>;
    const cudaError_t status =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess) return status;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks, parts);
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(
        &config, kernel, s, static_cast<const uint16_t*>(x), static_cast<const uint16_t*>(filters),
        static_cast<const uint16_t*>(bias), static_cast<uint16_t*>(out));
}

}  // namespace

// out = the transposed convolution of x, of any strides, with weight [channels, out_channels, taps],
// plus bias [out_channels] or null; all bfloat16, or float16 where `half`. `filters` has room for
// the padded weights, aligned to 16 bytes. `sizes`: an Axis for depth, height and width each; batch,
// channels, out_channels; the strides of x. Returns -1 where something does not fit, or an error.
extern "C" int conv_transpose_wgmma(const void* x, const void* weight, const void* bias,
                                    void* filters, void* out, const int64_t* sizes, int half,
                                    int aligned, int haste, cudaStream_t stream) {
    Shape s = {};
    Axis* const axes[3] = {&s.d, &s.h, &s.w};
    for (int i = 0; i < 3; ++i) {
        const int64_t* const a = sizes + 8 * i;
        *axes[i] = {int(a[0]), int(a[1]), int(a[2]), int(a[3]),
                    int(a[4]), int(a[5]), int(a[6]), int(a[7])};
    }
    const int64_t* const more = sizes + 24;
    s.batch = int(more[0]);
    s.in_channels = int(more[1]);
    s.out_channels = int(more[2]);
    s.stride_n = more[3];
    s.stride_c = more[4];
    s.stride_d = more[5];
    s.stride_h = more[6];
    s.stride_w = more[7];
    s.channels = divided(s.in_channels, 16) * 16;
    s.unit = aligned ? 64 : 8;
    s.haste = haste;
    int device = 0, processors = 0, limit = 0, blocks = 0, bytes = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (status != cudaSuccess) return status;
    if (!plan(s, processors, limit, blocks, bytes)) return -1;
    const int taps = s.d.taps * s.h.taps * s.w.taps, parts = divided(s.out_channels, kRows);
    arrange<<<divided(parts * taps * s.channels * kRows, 256), 256, 0, stream>>>(
        static_cast<const uint16_t*>(weight), static_cast<uint16_t*>(filters), s.in_channels,
        s.out_channels, s.channels, taps);
    const bool two = s.h.stride == 2 && s.w.stride == 2 && s.w.out >= 8;
    const auto choose = [&](auto kind) {
        using T = decltype(kind);
        return two ? launch<T, true>(s, x, filters, bias, out, blocks, parts, bytes, stream)
                   : launch<T, false>(s, x, filters, bias, out, blocks, parts, bytes, stream);
    };
    return half ? choose(__half()) : choose(__nv_bfloat16());
}
