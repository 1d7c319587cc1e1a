// ldmatrix: a warp's load of four matrices from shared memory, executed by the last lane to arrive.
// Each row of 16 bytes is an access of the lane that passes its address, whichever lanes receive
// it.
#include <device/ptx/ldmatrix.h>

#include <cstring>

#include "device/mma_fragments.h"
#include "simt/access_check.h"

namespace cuflash::simt {
namespace {

constexpr std::size_t kRowBytes = 16, kElementBytes = 2;

// The operands of a lane.
struct MatrixRow {
  std::uint32_t* registers;
  std::uintptr_t row;
  bool trans;
};

}  // namespace

void finish_ldmatrix(const Thread* lanes) {
  const MatrixRow* of_lane[32];
  for (int lane = 0; lane < 32; ++lane) {
    const Thread& thread = lanes[lane];
    of_lane[lane] = reinterpret_cast<const MatrixRow*>(thread.call.value);
    const std::uint16_t site =
        core.sites.id(thread.wait_address, AccessKind::kRead, kRowBytes, kElementBytes);
    core.check_operand(thread, of_lane[lane]->row, kRowBytes, site, true, "ldmatrix reads");
    if (core.recorder.on()) {
      core.recorder.note(thread, of_lane[lane]->row, kRowBytes, AccessKind::kRead, site);
    }
  }
  for (int lane = 0; lane < 32 && counts_accesses(); ++lane) {
    const Thread& thread = lanes[lane];
    core.on_access(thread.index, of_lane[lane]->row, kRowBytes, AccessKind::kRead,
                   thread.wait_address);
  }
  const auto element = [&](int matrix, int row, int col) {
    std::uint16_t bits;
    std::memcpy(&bits,
                reinterpret_cast<const void*>(of_lane[matrix * 8 + row]->row + col * kElementBytes),
                kElementBytes);
    return std::uint32_t{bits};
  };
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::uint32_t pair = 0;
      for (int i = 0; i < LdMatrix::kElements; ++i) {
        const int row = LdMatrix::row(lane, i), col = LdMatrix::col(lane, i);
        pair |= (of_lane[lane]->trans ? element(matrix, col, row) : element(matrix, row, col))
                << 16 * i;
      }
      of_lane[lane]->registers[matrix] = pair;
    }
  }
}

void load_matrices(std::uint32_t* registers, const void* row, bool trans) {
  const MatrixRow mine{registers, as_address(row), trans};
  const std::uintptr_t return_address = as_address(__builtin_return_address(0));
  Thread& self = *running_thread();
  core.warp_calls.call(self, {WarpCall::Kind::kLdMatrix, ~0u, as_address(&mine), 0},
                       return_address);
  if (core.warpgroups.products_in_use()) {
    on_register_access(self, as_address(registers), kRowBytes, AccessKind::kWrite, return_address);
  }
}

}  // namespace cuflash::simt
