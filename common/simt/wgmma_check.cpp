// What a product reads in shared memory: it must be written, ordered and fenced before the product
// begins, and stay until the wait.
//
// A product ends for all threads of the warpgroup when the wait returns in one of them: who comes
// after that one may overwrite what it has read.
#include <algorithm>

#include "simt/access_check.h"

namespace cuflash::simt {

namespace {

bool same_matrix(const ptx::MatrixDescriptor& a, const ptx::MatrixDescriptor& b) {
  return a.begin == b.begin && a.leading_bytes == b.leading_bytes &&
         a.stride_bytes == b.stride_bytes && a.swizzle == b.swizzle;
}

}  // namespace

// ---- When a product begins ---------------------------------------------------------------------

void Core::check_same_matrices(const Warpgroup& group, std::uint16_t site) {
  const Thread& first = threads_[group.first_thread];
  const ProductOperands& named = first.warpgroup_call->operands;
  for (int t = 1; t < kWarpgroupThreads; ++t) {
    const Thread& other = threads_[group.first_thread + t];
    const ProductOperands& operands = other.warpgroup_call->operands;
    if (same_matrix(operands.a, named.a) && same_matrix(operands.b, named.b) &&
        operands.accumulate == named.accumulate) {
      continue;
    }
    report_accesses(Report::kThreadsNameMatrices, &shared_.region(), as_address(operands.b.begin),
                    {access_of(first, site), access_of(other, site)},
                    "All threads of a warpgroup name the same operands and the same `accumulate`. "
                    "The launch ends here.");
    kill_launch();
  }
}

void Core::check_operands(Warpgroup& group, const WarpgroupProduct& product) {
  const auto site = static_cast<std::uint16_t>(stamp_site(product.begun));
  group.reads.resize(shared_.region().bytes / OperandChunk::kBytes + 2);
  for_each_chunk(product.operands, [&](const OperandChunk& chunk) {
    const Thread& reader = threads_[group.first_thread + 32 * __builtin_ctz(chunk.warps)];
    check_operand(reader, chunk.address, OperandChunk::kBytes, site, true, "wgmma reads");
    if (!shared_.inside_variable(chunk.address, OperandChunk::kBytes)) {
      report_access(
          Report::kOutOfBounds, reader, &shared_.region(), chunk.address, site,
          shared_.explain_outside(chunk.address, OperandChunk::kBytes) + " The launch ends here.");
      kill_launch();
    }
    if (recorder.on()) {
      recorder.note(*this, reader, chunk.address, OperandChunk::kBytes, AccessKind::kRead, site);
    }
    if (counts_accesses()) check_chunk(group, chunk, site);
    product_read(group, chunk.address) = product.begun;
  });
}

void Core::check_chunk(Warpgroup& group, const OperandChunk& chunk, std::uint16_t site) {
  Region& region = shared_.region();
  const Thread& reader = threads_[group.first_thread + 32 * __builtin_ctz(chunk.warps)];
  if (meets_copy(reader, region, chunk.address, site)) return;
  const TensorCopy* const copied = tensor_copies_.at(chunk.address);
  const TensorCopy* brought = nullptr;
  std::size_t count = 0;
  Cell* const cells = region.cells(chunk.address, OperandChunk::kBytes, count);
  for (Cell* cell = cells; cell != cells + count; ++cell) {
    if (copied != nullptr && cell->write == 0) {
      brought = copied;
      continue;
    }
    if (cell->write < block_start_) {
      report_access(Report::kUninitialised, reader, &region, chunk.address, site,
                    "No thread of this block has written it.");
      cell->write = block_start_;  // one report
    }
    if (cell->write == block_start_) continue;
    for (int warp = 0; warp < kWarps; ++warp) {
      if ((chunk.warps >> warp & 1) != 0) {
        check_written(group, warp, cell->write, chunk.address, site);
      }
    }
  }
  for (int warp = 0; warp < kWarps && brought != nullptr; ++warp) {
    if ((chunk.warps >> warp & 1) != 0) check_full(group, warp, *brought, chunk.address, site);
  }
}

// What a thread has written must be ordered before every lane's part of the product, by a proxy
// fence, too.
void Core::check_written(Warpgroup& group, int warp, Stamp writer, std::uintptr_t address,
                         std::uint16_t site) {
  std::vector<Stamp>& readable = group.readable[warp];
  readable.resize(num_threads_);
  Stamp& known = readable[stamp_thread(writer)];
  if (writer <= known) return;
  for (int lane = 0; lane < 32; ++lane) {
    const Thread& thread = threads_[group.first_thread + 32 * warp + lane];
    if (!happens_before(writer, thread, stamp_of(thread, site), true)) {
      report_race(thread, shared_.region(), address, writer, site);
      return;
    }
    if (!thread.knowledge.has_fenced(writer)) {
      report_accesses(Report::kOperandWithoutProxyFence, &shared_.region(), address,
                      {named_access(writer), access_of(thread, site)},
                      "The product may overtake the write. The thread that writes must call "
                      "fence_proxy_async() before the barrier that orders the two.");
      return;
    }
  }
  known = writer | (kOneEpoch - 1);
}

void Core::check_full(Warpgroup& group, int warp, const TensorCopy& copy, std::uintptr_t address,
                      std::uint16_t site) {
  if (group.full[warp] == copy.begun) return;
  for (int lane = 0; lane < 32; ++lane) {
    const Thread& thread = threads_[group.first_thread + 32 * warp + lane];
    if (!has_ended(thread, copy)) return report_not_full(thread, copy, address, site);
  }
  group.full[warp] = copy.begun;
}

// ---- Until the wait, and after it --------------------------------------------------------------

Stamp& Core::product_read(Warpgroup& group, std::uintptr_t address) const {
  constexpr std::size_t kBytes16 = OperandChunk::kBytes;
  return group.reads[address / kBytes16 - shared_.region().begin / kBytes16];
}

// The product is waited for now.
void Core::release_operands(Warpgroup& group, const WarpgroupProduct& product, Stamp now) {
  for_each_chunk(product.operands, [&](const OperandChunk& chunk) {
    Stamp& read = product_read(group, chunk.address);
    if (read == product.begun) read = now | (product.begun & (kOneEpoch - 1));
  });
}

// The thread, or a copy that it begins, is about to write there. Returns a read by a product that
// nothing orders before it, or 0. One in flight is reported.
Stamp Core::unordered_product_read(const Thread& self, std::uintptr_t address, std::uint16_t site) {
  for (Warpgroup& group : warpgroups_) {
    if (group.reads.empty()) continue;
    const Stamp read = product_read(group, address);
    const bool in_flight =
        std::any_of(group.products.begin(), group.products.end(),
                    [&](const WarpgroupProduct& product) { return product.begun == read; });
    if (in_flight) {
      report_accesses(Report::kOperandOverwritten, &shared_.region(), address,
                      {named_access(read), access_of(self, site)},
                      "The product reads its operands until the wgmma_wait() that covers its "
                      "group.");
      continue;
    }
    group.done_before.resize(num_threads_);
    Stamp& done = group.done_before[self.index];
    if (read <= done) continue;
    if (!is_done(group, read, self, site)) return read;
    done = read;
  }
  return 0;
}

// True if the wait for the product, as one of the warpgroup's threads made it, happened before what
// the thread does now.
bool Core::is_done(const Warpgroup& group, Stamp read, const Thread& self,
                   std::uint16_t site) const {
  for (int t = group.first_thread; t < group.first_thread + kWarpgroupThreads; ++t) {
    const Stamp of_thread =
        moment_of(read) | static_cast<Stamp>(t) << kSiteBits | static_cast<Stamp>(stamp_site(read));
    if (happens_before(of_thread, self, stamp_of(self, site), true)) return true;
  }
  return false;
}

// All threads of the block have exited.
void Core::check_unfinished_products() {
  for (const Warpgroup& group : warpgroups_) {
    for (const WarpgroupProduct& product : group.products) {
      report_registers(Report::kProductWithoutWait, {named_access(product.begun)},
                       product.group < group.groups
                           ? "The block ends, and the warpgroup has not waited for its group."
                           : "The block ends, and the warpgroup has not committed its group.");
    }
  }
}

}  // namespace cuflash::simt
