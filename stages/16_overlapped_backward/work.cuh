// 16_overlapped_backward: which block computes what, and the sum of dQ before and after that.
#pragma once

#include <algorithm>
#include <climits>

#include "device/dq_sum.h"
#include "device/ptx/tensor_copy.h"

namespace cuflash::overlapped_backward {

// A tile of keys, and its KV head, counted over all batches.
struct KeyTile {
  int head, tile;
};

// The pieces of work, a tile of keys each, in the order in which blocks take them. The pieces of
// `together` KV heads make a queue, and the last queue has those that are left. In a queue the
// first tiles of all heads come first: under a causal mask they are the longest.
//
// A piece has its share of dQ, too, of the same heads. The shares begin as zeros, and are rounded
// in the end. A block does both on the way, while it computes another piece: it writes the zeros of
// the piece that comes `lead` pieces later, and rounds the share of the one that came `lag` pieces
// before. The first shares get their zeros before, and the last ones are rounded afterwards.
struct Schedule {
  int heads, tiles;  // of all batches; of a head
  int together;
  int lead, lag;
  std::int64_t parts;  // of dQ, of the query heads that share a KV head: what a warp holds

  __host__ __device__ constexpr int pieces() const { return heads * tiles; }
  __host__ __device__ constexpr KeyTile at(int n) const {
    const int first = n / (tiles * together) * together;
    const int width = heads - first < together ? heads - first : together;
    const int rest = n - first * tiles;
    return {first + rest % width, rest / width};
  }

  __host__ __device__ constexpr int queue(int n) const { return n / (tiles * together); }
  __host__ __device__ constexpr int queue_begin(int queue) const {
    const int n = queue * tiles * together;
    return n < pieces() ? n : pieces();
  }
  // The pieces of a queue, and those of them whose zeros blocks write.
  __host__ __device__ constexpr int length(int queue) const {
    return queue_begin(queue + 1) - queue_begin(queue);
  }
  __host__ __device__ constexpr int zeroed(int queue) const {
    const int begin = queue_begin(queue), end = queue_begin(queue + 1);
    return lead <= begin ? end - begin : lead < end ? end - lead : 0;
  }

  // The first part of a piece's share. 2^31 parts would fill terabytes.
  __host__ __device__ constexpr int share(int n) const {
    return static_cast<int>(n * parts / tiles);
  }
};

// True if each tile has one piece, and the shares of a queue are those of its heads.
constexpr bool each_tile_once(int heads, int tiles, int together) {
  const Schedule schedule{heads, tiles, together, 0, 0, 7};
  bool taken[64] = {};
  for (int n = 0; n < schedule.pieces(); ++n) {
    const KeyTile at = schedule.at(n);
    if (at.head >= heads || at.tile >= tiles || taken[at.head * tiles + at.tile]) return false;
    taken[at.head * tiles + at.tile] = true;
    const int head = schedule.queue(n) * together;
    if (n == schedule.queue_begin(schedule.queue(n)) && schedule.share(n) != head * 7) return false;
  }
  return schedule.share(schedule.pieces()) == heads * 7;
}
static_assert(each_tile_once(5, 3, 1) && each_tile_once(5, 3, 2) && each_tile_once(5, 3, 5),
              "queues of one head, of some, of all");

// How many KV heads have a queue. If the mask lets tiles see different numbers of queries, several,
// so that the longest tiles can come first, and at least two, so that the last ones fill the
// device; but few enough that what they add to stays in the L2 cache, beside what is on its way.
// Without a mask one; in a deterministic call as many as all blocks compute at a time. Then blocks
// that begin together have the same tile of different heads, and none waits for another to add.
inline int heads_together(const BackwardParams& p, int tiles, std::int64_t blocks) {
  constexpr std::int64_t kCacheBytes = 8 << 20;
  const std::int64_t heads = std::int64_t{p.batch} * p.heads_kv;
  if (p.width == UINT_MAX) {
    if (p.deterministic == 0) return 1;
    return static_cast<int>(std::clamp<std::int64_t>(blocks / tiles, 1, heads));
  }
  const std::int64_t row_bytes = p.head_dim * (sizeof(float) + 2 * 2);  // dQ, Q and dO
  const std::int64_t head_bytes = row_bytes * p.seq_q * (p.heads_q / p.heads_kv);
  return static_cast<int>(std::min(std::max(kCacheBytes / head_bytes, std::int64_t{2}), heads));
}

// The blocks' warps that keep dQ's sums: those of the producer's that do not copy or add.
__host__ __device__ constexpr int keepers(bool any_order) { return any_order ? 2 : 1; }

// True if the keepers round a share while their block computes a piece. Two of them take as long
// for it as the consumers for about 512 queries, on an H200. What is added waits for the memory
// that they ask for, so it pays only where they have time to spare.
inline bool rounds_on_the_way(const BackwardParams& p, int keys) {
  constexpr int kQueriesOfTwo = 768;
  const std::int64_t queries = p.width == UINT_MAX ? p.seq_q : (p.seq_q + keys) / 2;
  return queries * keepers(p.deterministic == 0) >= 2 * kQueriesOfTwo;
}

// Lead and lag are so large that nobody has to wait: a queue, since its shares are needed when its
// first piece begins and are done when its last one is, and what all blocks have taken but not
// finished, at most three pieces each.
template <class C>
Schedule make_schedule(const BackwardParams& p, std::int64_t blocks) {
  Schedule schedule;
  schedule.heads = p.batch * p.heads_kv;
  schedule.tiles = num_tiles(p.seq_kv, C::kOwned);
  schedule.together = heads_together(p, schedule.tiles, blocks);
  schedule.parts =
      std::int64_t{num_tiles(p.seq_q, C::kStreamed)} * (p.heads_q / p.heads_kv) * C::Dq::kWarps;
  const std::int64_t queue = std::int64_t{schedule.tiles} * schedule.together;
  schedule.lead = static_cast<int>(std::min<std::int64_t>(schedule.pieces(), queue + 3 * blocks));
  schedule.lag = rounds_on_the_way(p, C::kOwned) ? schedule.lead : schedule.pieces();
  return schedule;
}

// The workspace, with two counts for each queue: how many shares have been zeroed on the way, and
// how many pieces added, each as often as there are warps or threads for it.
struct QueueCounts {
  unsigned *zeroed, *added;
};
template <class Tile>
DqWorkspace workspace(const BackwardParams& p, const Schedule& schedule) {
  // At most a queue for each head.
  DqWorkspace work = dq_workspace<Tile, Tile::kWarpgroups>(p, 2 * schedule.heads);
  work.zeros = std::int64_t{schedule.share(schedule.lead)} * (Tile::kFloats / Tile::kWarps);
  return work;
}
__device__ __forceinline__ QueueCounts queue_counts(const DqWorkspace& work,
                                                    const Schedule& schedule) {
  return {work.next + 1, work.next + 1 + schedule.heads};
}

// Some threads write the zeros of the parts begin, …, end - 1 of dQ.
template <class Tile>
__device__ __forceinline__ void zero_parts(const DqWorkspace& work, int begin, int end, int thread,
                                           int threads) {
  constexpr int kVectors = Tile::kFloats / Tile::kWarps / 4;
  float4* const dq = reinterpret_cast<float4*>(work.dq) + std::int64_t{begin} * kVectors;
#pragma unroll 1
  for (int n = thread; n < (end - begin) * kVectors; n += threads) dq[n] = float4{};
}

// Of four lanes each has four values: after this, lane n has the nth of each.
__device__ __forceinline__ void exchange_in_quad(std::uint32_t (&x)[4], int lane) {
#pragma unroll
  for (int bit = 1; bit <= 2; ++bit) {
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int low = bit == 1 ? 2 * n : n, high = low + bit;
      const std::uint32_t got =
          __shfl_xor_sync(0xffffffffu, upper ? x[low] : x[high], static_cast<unsigned>(bit));
      if (upper) {
        x[low] = got;
      } else {
        x[high] = got;
      }
    }
  }
}

// Rounds accumulators of neighbouring columns, scaled, and writes them to a tensor. A lane has two
// columns of each, in two rows. It writes all eight of one, at `to` and eight rows below; of these
// rows `rows_left` and less are there.
constexpr int kWrittenTogether = 4;
template <class T>
__device__ __forceinline__ void write_rounded(T* to, std::int64_t row_stride, int rows_left,
                                              const float4 (&r)[kWrittenTogether], float scale,
                                              int lane) {
  std::uint32_t upper[kWrittenTogether], lower[kWrittenTogether];
#pragma unroll
  for (int n = 0; n < kWrittenTogether; ++n) {
    upper[n] = pack<T>(r[n].x * scale, r[n].y * scale);
    lower[n] = pack<T>(r[n].z * scale, r[n].w * scale);
  }
  exchange_in_quad(upper, lane);
  exchange_in_quad(lower, lane);
  const auto write = [&](int row, const std::uint32_t(&x)[kWrittenTogether]) {
    if (row < rows_left) {
      *reinterpret_cast<uint4*>(to + row * row_stride) = {x[0], x[1], x[2], x[3]};
    }
  };
  write(0, upper);
  write(kMmaM / 2, lower);
}

// dQ = softmax_scale · dQ, rounded: a warp a part.
template <class T, class Tile>
__device__ __forceinline__ void round_part(const BackwardParams& p, const DqWorkspace& work,
                                           int part, int lane) {
  const int warp = part % Tile::kWarps;
  const auto [b, h, tile, unused] = unravel(part / Tile::kWarps, p.heads_q, work.q_tiles, 1);
  const int i = tile * Tile::kRows + Tile::row(warp) + MmaAccumulator::row(lane, 0);
  const int rows_left = sequence(p, b).num_queries - i;
  const float* from =
      &work.dq[std::int64_t{part} * (Tile::kFloats / Tile::kWarps) + Tile::index(0, 0, lane)];
  T* to = &rows<T>(p.dq, b, h)(i, Tile::col(warp) + lane % 4 * kMmaN);
#pragma unroll 1
  for (int m = 0; m < Tile::kWarpColumns / kMmaN; m += kWrittenTogether) {
    float4 sum[kWrittenTogether];
#pragma unroll
    for (int f = 0; f < kWrittenTogether; ++f) {
      sum[f] = *reinterpret_cast<const float4*>(from + Tile::index(0, f, 0));
    }
    write_rounded(to, p.dq.row_stride, rows_left, sum, p.softmax_scale, lane);
    from += Tile::index(0, kWrittenTogether, 0), to += kWrittenTogether * kMmaN;
  }
}

// Rounds the parts of dQ that are left, from `first` on. A warp rounds one.
template <class T, class Tile>
__global__ void query_gradient(const __grid_constant__ BackwardParams p,
                               const __grid_constant__ DqWorkspace work, int first,
                               std::int64_t count) {
  const std::int64_t n = thread_index();
  if (n < count)
    round_part<T, Tile>(p, work, static_cast<int>(first + n / 32), static_cast<int>(n % 32));
}

}  // namespace cuflash::overlapped_backward
