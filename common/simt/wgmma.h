// The products in flight of a warpgroup (wgmma), and the registers and the shared memory that
// belong to them.
#ifndef CUFLASH_SIMT_WGMMA_H_
#define CUFLASH_SIMT_WGMMA_H_

#include <device/ptx/wgmma.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "simt/access_sites.h"
#include "simt/memory.h"
#include "simt/tensor_copy.h"

namespace cuflash::simt {

struct Thread;

constexpr int kWarpgroupThreads = 128, kWarps = kWarpgroupThreads / 32;
constexpr int kProductM = 64, kProductK = 16;

// 16 bytes of an operand in shared memory: 8 neighbours along k, or along m or n.
struct OperandChunk {
  static constexpr int kBytes = 16, kElements = 8;
  std::uintptr_t address;
  bool of_b, along_k;
  int mn, k;       // of its first element; mn is m in A, n in B
  unsigned warps;  // warps that read it: each reads its own rows of A, and all of B
};

// The address of the chunk that lies `line` rows below the operand's first chunk and `chunk` chunks
// to its right.
inline std::uintptr_t chunk_address(const ptx::MatrixDescriptor& matrix, int line, int chunk) {
  const int row_bytes = static_cast<int>(matrix.swizzle), chunks = row_bytes / OperandChunk::kBytes;
  return swizzled(as_address(matrix.begin) + chunk / chunks * matrix.leading_bytes +
                      line / 8 * matrix.stride_bytes + line % 8 * row_bytes +
                      chunk % chunks * OperandChunk::kBytes,
                  matrix.swizzle);
}

// Calls use(chunk) for all chunks of the operands in shared memory.
template <class Use>
void for_each_chunk(const ProductOperands& operands, const Use& use) {
  constexpr int kElements = OperandChunk::kElements;
  const auto for_each = [&](const ptx::MatrixDescriptor& matrix, bool of_b, bool mn_major,
                            int mns) {
    const int lines = mn_major ? kProductK : mns, length = mn_major ? mns : kProductK;
    for (int line = 0; line < lines; ++line) {
      for (int i = 0; i < length; i += kElements) {
        const int mn = mn_major ? i : line, k = mn_major ? line : i;
        const unsigned warps = of_b ? 15u : 1u << mn / 16;
        use({chunk_address(matrix, line, i / kElements), of_b, !mn_major, mn, k, warps});
      }
    }
  };
  if (operands.a_registers == nullptr) {
    for_each(operands.a, false, operands.a_mn_major, kProductM);
  }
  for_each(operands.b, true, operands.b_mn_major, operands.blocks * 8);
}

// Registers of one thread that a product uses: an accumulator or a left operand. They are an array
// on the thread's stack.
struct ProductRegisters {
  std::uintptr_t begin, end;
  bool accumulator;
  int in_flight = 0;  // number of products
  Stamp product = 0;  // the last one: moment, thread, site
  // The last access by other code, after which a wgmma_fence() must follow; 0: none since the last
  // product.
  Stamp touched = 0;
  std::uintptr_t touched_from = 0;  // return address
  AccessKind touched_kind = AccessKind::kRead;
  std::size_t touched_size = 0;

  bool is(std::uintptr_t address, std::size_t bytes, bool as_accumulator) const {
    return begin == address && end == address + bytes && accumulator == as_accumulator;
  }
};

// The sums of products in flight. The registers hold NaNs until the last has been waited for.
struct Accumulator {
  float* registers[kWarpgroupThreads];
  int blocks;
  std::vector<float> sums;  // 64 rows of 8 · blocks
  int in_flight = 0;        // products
};

struct WarpgroupProduct {
  ProductOperands operands;                       // the first thread's
  std::vector<const std::uint32_t*> a_registers;  // by thread; empty if A is in shared memory
  std::vector<std::uint32_t> a;                   // what they held: 4 of each thread
  Accumulator* accumulator;
  std::size_t group;
  Stamp begun;                             // moment, first thread, and the site that reads
  std::optional<std::size_t> logged = {};  // of AccessRecorder::product()
};

// The products of one warpgroup. The last thread that reaches an operation calls these functions.
class Products {
 public:
  explicit Products(int first_thread) : first_thread_(first_thread) {}
  void fence();
  void begin();
  void commit() { ++groups_; }
  void wait(std::size_t pending);
  Stamp unordered_read(const Thread& self, std::uintptr_t address, std::uint16_t site);
  void end_block() const;

 private:
  Thread& member(int t) const;  // of the warpgroup
  Accumulator& accumulator();

  // wgmma_check.cpp: operands in shared memory
  void check_same_matrices(std::uint16_t site) const;
  void check_operands(const WarpgroupProduct& product);
  void check_chunk(const OperandChunk& chunk, std::uint16_t site);
  void check_written(int warp, Stamp writer, std::uintptr_t address, std::uint16_t site);
  void check_full(int warp, const TensorCopy& copy, std::uintptr_t address, std::uint16_t site);
  void release_operands(const WarpgroupProduct& product, Stamp now);
  bool is_done(Stamp read, const Thread& self) const;
  Stamp& read_at(std::uintptr_t address);

  // wgmma_registers.cpp
  void take_registers(const WarpgroupProduct& product);
  void release_registers(const WarpgroupProduct& product);

  int first_thread_;
  Stamp last_fence_ = 0;
  std::size_t groups_ = 0;                // number of committed groups
  std::list<WarpgroupProduct> products_;  // in flight, oldest first
  std::list<Accumulator> accumulators_;   // of these
  // By chunk of shared memory: the last product that read it, with the moment of its begin or, once
  // it has been waited for, of the wait.
  std::vector<Stamp> reads_;

  // Results of earlier checks, which stay valid.
  // By warp, and by thread of the block: every lane of the warp may read that thread's writes up to
  // this moment.
  std::vector<Stamp> readable_[kWarps];
  Stamp full_[kWarps] = {};         // by warp: the last copy whose end is ordered for every lane
  std::vector<Stamp> done_before_;  // by thread of the block: the reads up to this moment are done
};

// Checks an access to the thread's stack by code other than a product.
void on_register_access(Thread& self, std::uintptr_t address, std::size_t size, AccessKind kind,
                        std::uintptr_t return_address);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_WGMMA_H_
