#include <cuda_fp16.h>

// Reduce a value over the lanes of a warp by exchanging registers.
__device__ float lane_total(float value) {
  for (int offset = 16; offset > 0; offset >>= 1) {
    value += __shfl_xor_sync(0xffffffff, value, offset);
  }
  return value;
}

// Swap rows and columns through a padded tile so that both sides stay contiguous.
__global__ void flip_matrix(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 32 + threadIdx.y;
  if (x < columns && y < rows) tile[threadIdx.y][threadIdx.x] = in[y * columns + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  if (x < rows && y < columns) out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}

// Copy sixteen bytes at a time between two aligned buffers.
__global__ void wide_move(const int4* __restrict__ from, int4* __restrict__ to, long count) {
  long at = blockIdx.x * (long)blockDim.x + threadIdx.x;
  for (; at < count; at += (long)gridDim.x * blockDim.x) {
    to[at] = from[at];
  }
}

// Count how often each byte value occurs, with private bins per block.
__global__ void byte_histogram(const unsigned char* data, unsigned* bins, long count) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (long at = blockIdx.x * (long)blockDim.x + threadIdx.x; at < count;
       at += (long)gridDim.x * blockDim.x) {
    atomicAdd(&local[data[at]], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

// Append the newest keys and values of a sequence to the pages of its cache.
__global__ void write_pages(const half* key, const half* value, half* pool, const int* table,
                            const int* lengths, int page, int width) {
  int sequence = blockIdx.x;
  int position = lengths[sequence] - 1;
  int block = table[sequence * 1024 + position / page];
  half* slot = pool + (long)block * page * 2 * width + (position % page) * 2 * width;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    slot[i] = key[sequence * width + i];
    slot[width + i] = value[sequence * width + i];
  }
}
