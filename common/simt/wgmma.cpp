// wgmma: a product of a warpgroup takes effect at the wait for its group.
//
// At its begin, its accumulator's registers become NaNs, and the sums are kept elsewhere. At the
// wait it reads its operands in shared memory and computes; the wait for the last product of an
// accumulator writes the registers. wgmma_check.cpp and wgmma_registers.cpp check the accesses in
// between.
//
// Products are exact, sums are rounded to the nearest float, one after the other: the old D first,
// then k from first to last, as in mma.cpp.
#include "simt/wgmma.h"

#include <algorithm>
#include <cstring>

#include "device/mma_fragments.h"
#include "simt/core.h"
#include "simt/round16.h"

namespace cuflash::simt {
namespace {

constexpr int kMaxProductN = 256, kBlockCols = MmaAccumulator::kCols;
constexpr int kRegistersA = 4;  // per thread

float decoded(std::uint16_t bits, bool bfloat16) {
  return bfloat16 ? decode16<Bfloat16Format>(bits) : decode16<HalfFormat>(bits);
}

// The operands as floats.
struct Factors {
  float a[kProductM][kProductK];
  float b[kProductK][kMaxProductN];
};

// The place of an element that a thread of the warpgroup holds; each warp has 16 rows.
template <class Fragment>
struct WarpgroupPlace {
  int row, col;
  WarpgroupPlace(int thread, int element)
      : row(thread / 32 * kMmaM + Fragment::row(thread % 32, element)),
        col(Fragment::col(thread % 32, element)) {}
};

void read_operands(const WarpgroupProduct& product, Factors& factors) {
  const bool bfloat16 = product.operands.bfloat16;
  for_each_chunk(product.operands, [&](const OperandChunk& chunk) {
    std::uint16_t bits[OperandChunk::kElements];
    std::memcpy(bits, reinterpret_cast<const void*>(chunk.address), sizeof bits);
    for (int e = 0; e < OperandChunk::kElements; ++e) {
      const int k = chunk.along_k ? chunk.k + e : chunk.k;
      const int mn = chunk.along_k ? chunk.mn : chunk.mn + e;
      (chunk.of_b ? factors.b[k][mn] : factors.a[mn][k]) = decoded(bits[e], bfloat16);
    }
  });
  for (std::size_t r = 0; r < product.a.size(); ++r) {
    for (int half = 0; half < 2; ++half) {
      const WarpgroupPlace<MmaA> place(static_cast<int>(r) / kRegistersA,
                                       r % kRegistersA * 2 + half);
      factors.a[place.row][place.col] =
          decoded(static_cast<std::uint16_t>(product.a[r] >> 16 * half), bfloat16);
    }
  }
}

void multiply(const Factors& factors, Accumulator& accumulator) {
  const int cols = accumulator.blocks * kBlockCols;
  for (int row = 0; row < kProductM; ++row) {
    for (int col = 0; col < cols; col += kBlockCols) {
      float* const sums = &accumulator.sums[row * cols + col];
      float block[kBlockCols];
      std::copy_n(sums, kBlockCols, block);
      for (int k = 0; k < kProductK; ++k) {
        for (int i = 0; i < kBlockCols; ++i) block[i] += factors.a[row][k] * factors.b[k][col + i];
      }
      std::copy_n(block, kBlockCols, sums);
    }
  }
}

void log_operands(const Factors& factors, const Accumulator& accumulator, LoggedProduct& log) {
  log.a.assign(factors.a[0], factors.a[0] + kProductM * kProductK);
  for (const auto& row : factors.b) log.b.insert(log.b.end(), row, row + log.cols);
  log.d = accumulator.sums;
}

// Calls use(register, sum) for all registers of the accumulator.
template <class Use>
void for_each_register(Accumulator& accumulator, const Use& use) {
  for (int t = 0; t < kWarpgroupThreads; ++t) {
    for (int i = 0; i < accumulator.blocks * MmaAccumulator::kElements; ++i) {
      const WarpgroupPlace<MmaAccumulator> place(t, i % MmaAccumulator::kElements);
      const int col = i / MmaAccumulator::kElements * kBlockCols + place.col;
      use(accumulator.registers[t][i],
          accumulator.sums[place.row * accumulator.blocks * kBlockCols + col]);
    }
  }
}

}  // namespace

// The accumulator of these registers. If no product on them is in flight, their values become its
// sums and are replaced by NaNs.
Accumulator& Products::accumulator() {
  const ProductOperands& operands = member(0).warpgroup_call->operands;
  for (Accumulator& known : accumulators_) {
    if (known.registers[0] == operands.d) return known;
  }
  Accumulator& accumulator = accumulators_.emplace_back();
  accumulator.blocks = operands.blocks;
  accumulator.sums.resize(kProductM * operands.blocks * kBlockCols);
  for (int t = 0; t < kWarpgroupThreads; ++t) {
    accumulator.registers[t] = member(t).warpgroup_call->operands.d;
  }
  for_each_register(accumulator, [](float& in_register, float& sum) {
    sum = in_register;
    std::memset(&in_register, 0xff, sizeof in_register);
  });
  return accumulator;
}

Thread& Products::member(int t) const { return core.thread(first_thread_ + t); }

void Products::fence() { last_fence_ = core.order.next_moment(); }

void Products::begin() {
  const Thread& first = member(0);
  const std::uint16_t site = core.sites.id(first.wait_address, AccessKind::kRead,
                                           OperandChunk::kBytes, sizeof(std::uint16_t));
  core.sites.mark_as_product(site);
  core.order.next_moment();
  core.events.note_product(kProductM, first.warpgroup_call->operands.blocks * kBlockCols,
                           kProductK);
  WarpgroupProduct product{first.warpgroup_call->operands,  {}, {}, nullptr, groups_,
                           core.order.stamp_of(first, site)};
  if (core.recorder.on()) {
    product.logged =
        core.recorder.begin_product(first, site, kProductM, product.operands.blocks * kBlockCols);
  }
  check_same_matrices(site);
  if (product.operands.a_registers != nullptr) {
    for (int t = 0; t < kWarpgroupThreads; ++t) {
      const Thread& thread = member(t);
      product.a_registers.push_back(thread.warpgroup_call->operands.a_registers);
      product.a.insert(product.a.end(), product.a_registers[t],
                       product.a_registers[t] + kRegistersA);
    }
  }
  take_registers(product);
  check_operands(product);
  product.accumulator = &accumulator();
  ++product.accumulator->in_flight;
  products_.push_back(std::move(product));
}

void Products::wait(std::size_t pending) {
  const Stamp now = core.order.next_moment();
  while (!products_.empty() && products_.front().group + pending < groups_) {
    const WarpgroupProduct& product = products_.front();
    Accumulator& accumulator = *product.accumulator;
    Factors factors;
    read_operands(product, factors);
    if (!product.operands.accumulate) {
      std::fill(accumulator.sums.begin(), accumulator.sums.end(), 0.0f);
    }
    if (product.logged) log_operands(factors, accumulator, core.recorder.product(*product.logged));
    multiply(factors, accumulator);
    release_operands(product, now);
    release_registers(product);
    if (--accumulator.in_flight == 0) {
      for_each_register(accumulator, [](float& in_register, float sum) { in_register = sum; });
      accumulators_.remove_if([](const Accumulator& done) { return done.in_flight == 0; });
    }
    products_.pop_front();
  }
  if (!products_.empty()) core.events.products_left += groups_ - products_.front().group;
}

void fence_product_registers() {
  core.warpgroups.call(*running_thread(), {WarpgroupCall::Kind::kFence},
                       as_address(__builtin_return_address(0)));
}

void issue_product(const ProductOperands& operands) {
  core.warpgroups.call(*running_thread(), {WarpgroupCall::Kind::kProduct, 0, operands},
                       as_address(__builtin_return_address(0)));
}

void commit_products() {
  core.warpgroups.call(*running_thread(), {WarpgroupCall::Kind::kCommit},
                       as_address(__builtin_return_address(0)));
}

void wait_for_products(int pending) {
  core.warpgroups.call(*running_thread(),
                       {WarpgroupCall::Kind::kWait, static_cast<std::size_t>(pending)},
                       as_address(__builtin_return_address(0)));
}

}  // namespace cuflash::simt
