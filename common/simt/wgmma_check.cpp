// Checks the operands of a product in shared memory: they must be written, ordered and fenced
// before the product begins, and stay unchanged until the wait.
//
// A product ends for all threads of the warpgroup when the wait returns in one of them: a thread
// that is ordered after that one may overwrite the operands.
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

void Products::check_same_matrices(std::uint16_t site) const {
  const Thread& first = member(0);
  const ProductOperands& named = first.warpgroup_call->operands;
  for (int t = 1; t < kWarpgroupThreads; ++t) {
    const Thread& other = member(t);
    const ProductOperands& operands = other.warpgroup_call->operands;
    if (same_matrix(operands.a, named.a) && same_matrix(operands.b, named.b) &&
        operands.accumulate == named.accumulate) {
      continue;
    }
    report_accesses(Report::kThreadsNameMatrices, &core.shared().region(),
                    as_address(operands.b.begin), {access_of(first, site), access_of(other, site)},
                    "All threads of a warpgroup must pass the same operands and `accumulate`. "
                    "The launch ends here.");
    core.kill_launch();
  }
}

void Products::check_operands(const WarpgroupProduct& product) {
  const auto site = static_cast<std::uint16_t>(stamp_site(product.begun));
  reads_.resize(core.shared().region().bytes / OperandChunk::kBytes + 2);
  for_each_chunk(product.operands, [&](const OperandChunk& chunk) {
    const Thread& reader = member(32 * __builtin_ctz(chunk.warps));
    core.check_operand(reader, chunk.address, OperandChunk::kBytes, site, true, "wgmma reads");
    if (!core.shared().inside_variable(chunk.address, OperandChunk::kBytes)) {
      report_access(Report::kOutOfBounds, reader, &core.shared().region(), chunk.address, site,
                    core.shared().explain_outside(chunk.address, OperandChunk::kBytes) +
                        " The launch ends here.");
      core.kill_launch();
    }
    if (core.recorder.on()) {
      core.recorder.note(reader, chunk.address, OperandChunk::kBytes, AccessKind::kRead, site);
    }
    if (counts_accesses()) check_chunk(chunk, site);
    read_at(chunk.address) = product.begun;
  });
}

void Products::check_chunk(const OperandChunk& chunk, std::uint16_t site) {
  Region& region = core.shared().region();
  const Thread& reader = member(32 * __builtin_ctz(chunk.warps));
  if (!core.copies.on_access(reader, region, chunk.address, site)) return;
  const TensorCopy* const copied = core.tensor_copies.last_to(chunk.address);
  const TensorCopy* brought = nullptr;
  for (Cell& cell : region.cells(chunk.address, OperandChunk::kBytes)) {
    if (copied != nullptr && cell.write == 0) {
      brought = copied;
      continue;
    }
    if (cell.write < core.order.block_start()) {
      report_access(Report::kUninitialised, reader, &region, chunk.address, site,
                    "No thread of this block has written it.");
      cell.write = core.order.block_start();  // one report
    }
    if (cell.write == core.order.block_start()) continue;
    for (int warp = 0; warp < kWarps; ++warp) {
      if ((chunk.warps >> warp & 1) != 0) {
        check_written(warp, cell.write, chunk.address, site);
      }
    }
  }
  for (int warp = 0; warp < kWarps && brought != nullptr; ++warp) {
    if ((chunk.warps >> warp & 1) != 0) check_full(warp, *brought, chunk.address, site);
  }
}

// Checks that a thread's writes are ordered before every lane's part of the product, with a proxy
// fence.
void Products::check_written(int warp, Stamp writer, std::uintptr_t address, std::uint16_t site) {
  std::vector<Stamp>& readable = readable_[warp];
  readable.resize(core.num_threads());
  Stamp& known = readable[stamp_thread(writer)];
  if (writer <= known) return;
  for (int lane = 0; lane < 32; ++lane) {
    const Thread& thread = member(32 * warp + lane);
    if (!core.order.happens_before(writer, thread, true)) {
      report_race(thread, core.shared().region(), address, writer, site);
      return;
    }
    if (!thread.knowledge.has_fenced(writer)) {
      report_accesses(Report::kOperandWithoutProxyFence, &core.shared().region(), address,
                      {named_access(writer), access_of(thread, site)},
                      "The product may overtake the write. The thread that writes must call "
                      "fence_proxy_async() before the barrier that orders the two.");
      return;
    }
  }
  known = writer | (kOneEpoch - 1);
}

void Products::check_full(int warp, const TensorCopy& copy, std::uintptr_t address,
                          std::uint16_t site) {
  if (full_[warp] == copy.begun) return;
  for (int lane = 0; lane < 32; ++lane) {
    const Thread& thread = member(32 * warp + lane);
    if (!core.tensor_copies.has_ended(thread, copy)) {
      return core.tensor_copies.report_not_full(thread, copy, address, site);
    }
  }
  full_[warp] = copy.begun;
}

// ---- Until the wait, and after it --------------------------------------------------------------

Stamp& Products::read_at(std::uintptr_t address) {
  constexpr std::size_t kBytes16 = OperandChunk::kBytes;
  return reads_[address / kBytes16 - core.shared().region().begin / kBytes16];
}

// Called at the wait for the product.
void Products::release_operands(const WarpgroupProduct& product, Stamp now) {
  for_each_chunk(product.operands, [&](const OperandChunk& chunk) {
    Stamp& read = read_at(chunk.address);
    if (read == product.begun) read = now | (product.begun & (kOneEpoch - 1));
  });
}

Stamp Products::unordered_read(const Thread& self, std::uintptr_t address, std::uint16_t site) {
  if (reads_.empty()) return 0;
  const Stamp read = read_at(address);
  const bool in_flight =
      std::any_of(products_.begin(), products_.end(),
                  [&](const WarpgroupProduct& product) { return product.begun == read; });
  if (in_flight) {
    report_accesses(Report::kOperandOverwritten, &core.shared().region(), address,
                    {named_access(read), access_of(self, site)},
                    "The product reads its operands until the wgmma_wait() that covers its "
                    "group.");
    return 0;
  }
  done_before_.resize(core.num_threads());
  Stamp& done = done_before_[self.index];
  if (read <= done) return 0;
  if (!is_done(read, self)) return read;
  done = read;
  return 0;
}

// True if the wait for the product in one of the warpgroup's threads happened before the thread's
// current access.
bool Products::is_done(Stamp read, const Thread& self) const {
  for (int t = first_thread_; t < first_thread_ + kWarpgroupThreads; ++t) {
    const Stamp of_thread =
        moment_of(read) | static_cast<Stamp>(t) << kSiteBits | static_cast<Stamp>(stamp_site(read));
    if (core.order.happens_before(of_thread, self, true)) return true;
  }
  return false;
}

void Products::end_block() const {
  for (const WarpgroupProduct& product : products_) {
    report_registers(Report::kProductWithoutWait, {named_access(product.begun)},
                     product.group < groups_
                         ? "The block ends, and the warpgroup has not waited for its group."
                         : "The block ends, and the warpgroup has not committed its group.");
  }
}

}  // namespace cuflash::simt
