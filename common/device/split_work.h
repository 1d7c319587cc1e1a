// How keys are divided over blocks, and where the parts' results go (stage 20_split_kv explains
// it).
#ifndef CUFLASH_DEVICE_SPLIT_WORK_H_
#define CUFLASH_DEVICE_SPLIT_WORK_H_

#include <algorithm>
#include <cstdint>

#include "device/cache.h"
#include "device/index.h"
#include "device/mma_fragments.h"

namespace cuflash {

// The query heads that share a KV head, times the queries, are the rows of one matrix: row r
// belongs to query r / group. A tile has kMmaM of them.
__host__ __device__ inline int group_size(const Problem& p) { return p.heads_q / p.heads_kv; }
__host__ __device__ inline int num_row_tiles(const Problem& p) {
  return num_tiles(group_size(p) * p.seq_q, kMmaM);
}
// The tiles of rows of all KV heads of a sequence.
__host__ __device__ inline std::int64_t row_tiles_of_sequence(const Problem& p) {
  return std::int64_t{p.heads_kv} * num_row_tiles(p);
}

// The division of the keys, made on the host from the problem and the number of multiprocessors.
// The device applies it to the sequences' lengths. If `parts` is 0, each block gets an equal share
// of all work, a span.
struct Division {
  int blocks;
  int parts;       // blocks of each tile of rows
  int part_tiles;  // tiles of keys of a part, from key 0 on; 0: a sequence's tiles divided by
                   // `parts`
};

// The results of parts, not normalised: O, the number that was subtracted in the exponents, and the
// sum of the exponentials. There is a slot for each tile of rows of each part.
struct Partials {
  float* o;       // [slots, kMmaM, head_dim]
  float2* stats;  // [slots, kMmaM]: row_max · scale_log2, row_sum

  template <int kHeadDim>
  __device__ __forceinline__ float* row(std::int64_t slot, int r) const {
    return o + (slot * kMmaM + r) * kHeadDim;
  }
  __device__ __forceinline__ float2& stat(std::int64_t slot, int r) const {
    return stats[slot * kMmaM + r];
  }
};

// The tiles of keys that hold all keys that the queries of a sequence see.
template <int kBlockKV>
__device__ __forceinline__ Range key_tiles(const CachedSequence& seq, int begin, int end) {
  const Range keys = visible_keys(seq, begin, end);
  if (keys.begin >= keys.end) return {0, 0};
  return {keys.begin / kBlockKV, num_tiles(keys.end, kBlockKV)};
}
template <int kBlockKV>
__device__ __forceinline__ Range key_tiles(const CachedSequence& seq) {
  return key_tiles<kBlockKV>(seq, 0, seq.num_queries);
}

// ---- On the host --------------------------------------------------------------------------------

// The tiles of rows of all sequences.
inline std::int64_t all_row_tiles(const Problem& p) { return p.batch * row_tiles_of_sequence(p); }

// The parts of each tile of rows; 0: spans.
inline std::int64_t num_parts(const Problem& p) {
  return p.split_keys != 0 ? num_tiles(p.seq_kv, p.split_keys) : p.num_splits;
}

// The blocks of the grid; of spans no more than `resident`, which run at the same time.
template <class C>
std::int64_t num_blocks(const Problem& p, std::int64_t resident) {
  const std::int64_t parts = num_parts(p), tiles = all_row_tiles(p);
  return parts != 0 ? tiles * parts : std::min(resident, tiles * num_tiles(p.seq_kv, C::kBlockKV));
}

// More blocks than any device holds at a time: the workspace is the same on each.
constexpr std::int64_t kMostBlocks = 1024;

// The division on a device with so many multiprocessors. It has no more than kMaxBlocks blocks.
template <class C>
Division make_division(const Problem& p, int sms) {
  const std::int64_t resident = std::min<std::int64_t>(C::kBlocks * sms, kMostBlocks);
  return {static_cast<int>(num_blocks<C>(p, resident)), static_cast<int>(num_parts(p)),
          p.split_keys / C::kBlockKV};
}

// ---- Parts --------------------------------------------------------------------------------------

// The tiles of part n of a sequence.
__host__ __device__ inline Range tiles_of_part(const Division& division, Range tiles, int n) {
  const auto bound = [&](int k) -> std::int64_t {
    if (division.part_tiles != 0) return std::int64_t{k} * division.part_tiles;
    return tiles.begin + std::int64_t{tiles.end - tiles.begin} * k / division.parts;
  };
  const std::int64_t begin = bound(n), end = bound(n + 1);
  return {begin > tiles.begin ? static_cast<int>(begin) : tiles.begin,
          end < tiles.end ? static_cast<int>(end) : tiles.end};
}

// The parts that hold the tiles of a sequence; part 0 if it has none.
__host__ __device__ inline Range parts_of(const Division& division, Range tiles) {
  if (tiles.begin == tiles.end) return {0, 1};
  if (division.part_tiles == 0) return {0, division.parts};
  return {tiles.begin / division.part_tiles, (tiles.end - 1) / division.part_tiles + 1};
}

// ---- Spans --------------------------------------------------------------------------------------

// The work of a tile of rows of a sequence, and of the whole sequence, in tiles of keys. A tile of
// rows without keys counts as one: its O is written, too.
template <int kBlockKV>
__device__ __forceinline__ int work_of_row_tile(const ForwardParams& p, int batch) {
  const Range tiles = key_tiles<kBlockKV>(cached_sequence(p, batch));
  return max(tiles.end - tiles.begin, 1);
}
template <int kBlockKV>
__device__ __forceinline__ std::int64_t work_of(const ForwardParams& p, int batch) {
  return row_tiles_of_sequence(p) * work_of_row_tile<kBlockKV>(p, batch);
}

// The work of all sequences, and of those before one of them. All lanes of a warp compute it.
struct Work {
  std::int64_t before, all;
};
template <int kBlockKV>
__device__ __forceinline__ Work sum_work(const ForwardParams& p, int batch, int lane) {
  Work sum = {0, 0};
  for (int b = lane; b < p.batch; b += 32) {
    const std::int64_t work = work_of<kBlockKV>(p, b);
    sum.all += work;
    if (b < batch) sum.before += work;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    sum.all += __shfl_xor_sync(0xffffffffu, sum.all, distance);
    sum.before += __shfl_xor_sync(0xffffffffu, sum.before, distance);
  }
  return sum;
}

// The sequence in which unit `at` of the work lies, and the work before this sequence.
struct Found {
  int batch;
  std::int64_t before;
};
template <int kBlockKV>
__device__ __forceinline__ Found find_sequence(const ForwardParams& p, std::int64_t at, int lane) {
  std::int64_t before = 0;
  for (int b = 0;; b += 32) {
    const std::int64_t work = b + lane < p.batch ? work_of<kBlockKV>(p, b + lane) : 0;
    std::int64_t sum = work;  // of the lanes up to this one
    for (int distance = 1; distance < 32; distance *= 2) {
      const std::int64_t other = __shfl_up_sync(0xffffffffu, sum, distance);
      if (lane >= distance) sum += other;
    }
    const unsigned past = __ballot_sync(0xffffffffu, before + sum > at);
    if (past != 0) {
      const int first = __ffs(static_cast<int>(past)) - 1;
      return {b + first, before + __shfl_sync(0xffffffffu, sum - work, first)};
    }
    before += __shfl_sync(0xffffffffu, sum, 31);
  }
}

// The first unit of a block's span, and the block whose span holds a unit.
__host__ __device__ inline std::int64_t span_begin(const Division& division, std::int64_t work,
                                                   int block) {
  return work * block / division.blocks;
}
__host__ __device__ inline int block_of(const Division& division, std::int64_t work,
                                        std::int64_t at) {
  return static_cast<int>(((at + 1) * division.blocks - 1) / work);
}

// ---- A block's pieces ---------------------------------------------------------------------------

// Some tiles of keys of one tile of rows.
struct Piece {
  int batch, kv_head, row_tile;
  Range tiles;
  bool is_all;        // true if the rows see no other tiles
  std::int64_t slot;  // of its partial result, if it is not all
};

// The pieces of a block, one after the other. All lanes of a warp call it.
template <int kBlockKV>
class Pieces {
 public:
  __device__ __forceinline__ Pieces(const ForwardParams& p, const Division& division, int block,
                                    int lane)
      : p_(p), division_(division), block_(block) {
    if (division.parts != 0) return;
    const std::int64_t work = sum_work<kBlockKV>(p, 0, lane).all;
    at_ = span_begin(division, work, block);
    end_ = span_begin(division, work, block + 1);
    if (at_ == end_) return;
    const Found found = find_sequence<kBlockKV>(p, at_, lane);
    batch_ = found.batch;
    before_ = found.before;
  }

  // Sets the next piece; returns false if there is none.
  __device__ __forceinline__ bool next(Piece& piece) {
    return division_.parts != 0 ? part(piece) : next_of_span(piece);
  }

 private:
  // The block's only piece, if its part holds tiles of the sequence.
  __device__ __forceinline__ bool part(Piece& piece) {
    if (at_++ != 0) return false;  // It has been given.
    const int n = block_ % division_.parts;
    set_rows(piece, block_ / division_.parts);
    const Range tiles = key_tiles<kBlockKV>(cached_sequence(p_, piece.batch));
    const Range parts = parts_of(division_, tiles);
    piece.tiles = tiles_of_part(division_, tiles, n);
    piece.is_all = parts.begin + 1 == parts.end;
    piece.slot = block_;
    return parts.begin <= n && n < parts.end;
  }

  __device__ __forceinline__ bool next_of_span(Piece& piece) {
    if (at_ >= end_) return false;
    const std::int64_t row_tiles = row_tiles_of_sequence(p_);
    std::int64_t each = work_of_row_tile<kBlockKV>(p_, batch_);
    if (at_ == before_ + row_tiles * each) {  // The last piece was the sequence's last.
      before_ = at_;
      each = work_of_row_tile<kBlockKV>(p_, ++batch_);
    }
    const std::int64_t row_tile = (at_ - before_) / each;
    const auto begin = static_cast<int>((at_ - before_) % each);
    const auto end = static_cast<int>(min(each, begin + (end_ - at_)));
    set_rows(piece, batch_ * row_tiles + row_tile);
    const Range tiles = key_tiles<kBlockKV>(cached_sequence(p_, batch_));
    piece.tiles = {tiles.begin + begin, min(tiles.begin + end, tiles.end)};
    piece.is_all = begin == 0 && end == each;
    // The span ends in at most one tile of rows, and begins in at most one that others began.
    piece.slot = 2 * block_ + (end == each ? 0 : 1);
    at_ += end - begin;
    return true;
  }

  __device__ __forceinline__ void set_rows(Piece& piece, std::int64_t row_tile) const {
    const int row_tiles = num_row_tiles(p_);
    const std::int64_t head = row_tile / row_tiles;
    piece.row_tile = static_cast<int>(row_tile % row_tiles);
    piece.kv_head = static_cast<int>(head % p_.heads_kv);
    piece.batch = static_cast<int>(head / p_.heads_kv);
  }

  const ForwardParams& p_;
  const Division& division_;
  int block_;
  int batch_ = 0;                  // of the next piece
  std::int64_t before_ = 0;        // the work before this sequence
  std::int64_t at_ = 0, end_ = 0;  // what is left of the span
};

// The slots of a tile of rows, in the order of its keys.
struct Slots {
  std::int64_t first;
  int count;  // 1: its piece was all
  bool of_spans;

  __device__ __forceinline__ std::int64_t operator[](int n) const {
    if (!of_spans) return first + n;
    return 2 * (first + n) + (n + 1 < count ? 1 : 0);
  }
};

template <int kBlockKV>
__device__ __forceinline__ Slots slots_of(const ForwardParams& p, const Division& division,
                                          int batch, std::int64_t row_tile_of_sequence, int lane) {
  if (division.parts != 0) {
    const Range parts = parts_of(division, key_tiles<kBlockKV>(cached_sequence(p, batch)));
    const std::int64_t row_tile = batch * row_tiles_of_sequence(p) + row_tile_of_sequence;
    return {row_tile * division.parts + parts.begin, parts.end - parts.begin, false};
  }
  const Work work = sum_work<kBlockKV>(p, batch, lane);
  const int each = work_of_row_tile<kBlockKV>(p, batch);
  const std::int64_t begin = work.before + row_tile_of_sequence * each;
  const int first = block_of(division, work.all, begin);
  return {first, block_of(division, work.all, begin + each - 1) - first + 1, true};
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_SPLIT_WORK_H_
