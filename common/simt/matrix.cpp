// nvcuda::wmma: orders of fragments, instructions, and the operations themselves.
//
// The instructions are those that ptxas 13.0 generates for sm_80 and sm_90, read from the
// disassembly of one kernel for each type, shape, layout and memory. A matrix is a grid of blocks
// of 8 lines with 8 elements, and a line is contiguous in memory.
//   * a and b of __half in shared memory: LDSM, which reads up to four blocks. Each lane passes the
//     address of one line of 16 bytes. LDSM.T transposes the blocks, from the same addresses.
//   * All other matrices of 16 bits: 4 bytes per lane and block, line lane / 4, elements
//     2 (lane % 4) and the next. MOVM transposes the blocks in registers. a and b of __nv_bfloat16
//     in shared memory are also read in this way, because CUDA's header passes a generic address,
//     for which there is no LDSM.
//   * float: the same lines and elements, 8 bytes per lane and block. No instruction transposes a
//     block of floats: where lines are columns (rows, for 8 x 32) there are two instructions of 4
//     bytes.
// The wavefronts equal a GPU's (tests/simt/chip_test.cpp), except for an ldm of 0 with LDSM,
// which does not join pairs of lanes (bank_wavefronts()). No kernel here uses that.
#include "simt/matrix.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>

#include "simt/access_check.h"
#include "simt/round16.h"

namespace cuflash::simt {

// ---- Orders ------------------------------------------------------------------------------------

namespace {

constexpr int kFragmentTypes = 3 * 3 * 2 * 3;

int number_of(FragmentType type) {
  const int shape = type.m == 16 ? 0 : type.m == 32 ? 1 : 2;
  const int number = static_cast<int>(type.use) * 3 + static_cast<int>(type.element);
  return (number * 2 + type.col_major) * 3 + shape;
}

FragmentOrder make_order(FragmentType type) {
  const int rows = rows_of(type), cols = cols_of(type);
  std::vector<std::uint16_t> slots(32 * type.slots);
  std::iota(slots.begin(), slots.end(), std::uint16_t{0});
  std::mt19937 random(number_of(type));
  // Not std::shuffle, which may differ from one standard library to the next.
  for (std::size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[random() % i]);
  FragmentOrder order;
  order.element.resize(slots.size());
  order.holder.resize(rows * cols);
  for (int i = 0; i < 32 * type.slots; ++i) {
    const int element = i % (rows * cols);
    order.element[slots[i]] = {static_cast<std::uint8_t>(element / cols),
                               static_cast<std::uint8_t>(element % cols)};
    order.holder[element] = {static_cast<std::uint8_t>(slots[i] / type.slots),
                             static_cast<std::uint8_t>(slots[i] % type.slots)};
  }
  return order;
}

}  // namespace

const FragmentOrder& order_of(FragmentType type) {
  static std::array<std::unique_ptr<FragmentOrder>, kFragmentTypes> orders;
  std::unique_ptr<FragmentOrder>& order = orders.at(number_of(type));
  if (order == nullptr) order = std::make_unique<FragmentOrder>(make_order(type));
  return *order;
}

// ---- Instructions ------------------------------------------------------------------------------

MatrixInstructions instructions_for(FragmentType type, bool col_major, bool shared) {
  const int blocks = rows_of(type) * cols_of(type) / 64;
  if (type.element == MatrixElement::kFloat) {
    const bool pairs_lie_together = (type.m == 8) == col_major;
    return pairs_lie_together ? MatrixInstructions{blocks, 32, 8}
                              : MatrixInstructions{2 * blocks, 32, 4};
  }
  if (type.use == MatrixUse::kAccumulator) return {blocks, 32, 4};
  if (type.element == MatrixElement::kBfloat16 || !shared) {
    const bool lines_run_along_k = (type.use == MatrixUse::kB) == col_major;
    return {blocks, 32, 4, lines_run_along_k ? 0 : blocks};
  }
  return {std::max(1, blocks / 4), 8 * std::min(4, blocks), 16};
}

std::size_t offset_of_piece(FragmentType type, const MatrixInstructions& instructions,
                            const MatrixInMemory& matrix, int i, int lane) {
  const bool one_float = type.element == MatrixElement::kFloat && instructions.bytes == 4;
  int block = i, line = lane / 4, first = 2 * (lane % 4);
  if (instructions.bytes == 16) {
    block = 4 * i + lane / 8;
    line = lane % 8;
    first = 0;
  } else if (one_float) {
    block = i / 2;
    line = 2 * (lane % 4) + i % 2;
    first = lane / 4;
  }
  const int blocks_down = (matrix.col_major ? cols_of(type) : rows_of(type)) / 8;
  line += 8 * (block % blocks_down);
  first += 8 * (block / blocks_down);
  return std::size_t{matrix.ldm} * line + first;
}

// ---- Loads and stores --------------------------------------------------------------------------

// A lane's arguments of a load or store.
struct MatrixAccess {
  FragmentType type;
  MatrixInMemory matrix;
  AccessKind kind;
};

namespace {

std::uintptr_t address_of(const MatrixInMemory& matrix) { return as_address(matrix.data); }

// Calls visit(slot, element) for every element that the lane holds; `element` is its offset in
// memory.
template <class Visit>
void for_each_slot(FragmentType type, const MatrixInMemory& matrix, int lane, Visit visit) {
  const FragmentOrder::Element* element = &order_of(type).element[lane * type.slots];
  for (int slot = 0; slot < type.slots; ++slot, ++element) {
    const std::size_t line = matrix.col_major ? element->col : element->row;
    visit(slot, line * matrix.ldm + (matrix.col_major ? element->row : element->col));
  }
}

template <class T>
void copy_in(FragmentType type, const MatrixInMemory& matrix, int lane, void* x) {
  const T* const from = static_cast<const T*>(matrix.data);
  for_each_slot(type, matrix, lane,
                [&](int slot, std::size_t i) { static_cast<T*>(x)[slot] = from[i]; });
}

template <class T>
void copy_out(FragmentType type, const MatrixInMemory& matrix, int lane, const void* x) {
  T* const to = static_cast<T*>(const_cast<void*>(matrix.data));
  for_each_slot(type, matrix, lane,
                [&](int slot, std::size_t i) { to[i] = static_cast<const T*>(x)[slot]; });
}

// Checks the alignment that CUDA requires of the pointer and of ldm; a violation ends the launch.
void check_matrix(const Thread& caller, const MatrixAccess& access) {
  const std::uintptr_t address = address_of(access.matrix);
  const std::size_t bytes = element_bytes(access.type);
  std::string what;
  if (address % 32 != 0) {
    what = "A matrix must begin at a multiple of 32 bytes; this one begins " +
           std::to_string(address % 32) + " bytes after one.";
  } else if (access.matrix.ldm * bytes % 16 != 0) {
    what = "The ldm of a matrix must be a multiple of 16 bytes, " + std::to_string(16 / bytes) +
           " elements of this type; here it is " + std::to_string(access.matrix.ldm) + '.';
  } else {
    return;
  }
  report_access(Report::kMisaligned, caller, core.region_of(address), address,
                core.sites.id(caller.wait_address, access.kind, bytes),
                what + " The launch ends here.");
  core.kill_launch();
}

// Counts the accesses of the hardware's lanes. They move the same bytes as the simulator's lanes.
void account_for_matrix(int warp, const MatrixAccess& access) {
  const std::uintptr_t begin = address_of(access.matrix);
  const Region* const region = core.region_of(begin);
  const MatrixInstructions instructions =
      instructions_for(access.type, access.matrix.col_major, region != nullptr && region->shared);
  core.events.exchanges += instructions.exchanges;
  for (int lane = 0; lane < instructions.lanes; ++lane) {
    // Creates the sites with the size of the matrix's elements.
    core.sites.id(core.thread(warp * 32 + lane).wait_address, access.kind, instructions.bytes,
                  element_bytes(access.type));
  }
  std::array<std::size_t, 32> pieces{};  // where an instruction's pieces begin, in elements
  std::vector<std::array<std::size_t, 32>> made;
  for (int i = 0; i < instructions.count; ++i) {
    for (int lane = 0; lane < instructions.lanes; ++lane) {
      pieces[lane] = offset_of_piece(access.type, instructions, access.matrix, i, lane);
    }
    // If lines coincide, an instruction that would load the same pieces again is not issued.
    if (access.matrix.ldm == 0 && access.kind == AccessKind::kRead) {
      if (std::find(made.begin(), made.end(), pieces) != made.end()) continue;
      made.push_back(pieces);
    }
    for (int lane = 0; lane < instructions.lanes; ++lane) {
      const Thread& thread = core.thread(warp * 32 + lane);
      core.on_access(thread.index, begin + pieces[lane] * element_bytes(access.type),
                     instructions.bytes, access.kind, thread.wait_address);
    }
  }
}

void access_matrix(Thread& self, const MatrixAccess& access, std::uintptr_t return_address) {
  core.warp_calls.call(self, {WarpCall::Kind::kMatrixAccess, ~0u, as_address(&access), 0},
                       return_address);
}

// Logs the elements that the lane has loaded or stored.
void log_matrix(const Thread& self, const MatrixAccess& access, std::uintptr_t return_address) {
  const std::size_t bytes = element_bytes(access.type);
  const std::uint16_t site = core.sites.id(return_address, access.kind, bytes);
  for_each_slot(access.type, access.matrix, self.lane(), [&](int, std::size_t i) {
    core.recorder.note(self, address_of(access.matrix) + i * bytes, bytes, access.kind, site);
  });
}

}  // namespace

// All lanes have arrived: checks that they pass the same matrix, then checks and counts the access.
void finish_matrix_access(const Thread& caller) {
  const Thread* const lanes = &core.thread(caller.warp() * 32);
  const auto access = [&](int lane) -> const MatrixAccess& {
    return *reinterpret_cast<const MatrixAccess*>(lanes[lane].call.value);
  };
  const MatrixInMemory& first = access(0).matrix;
  for (int lane = 1; lane < 32; ++lane) {
    const MatrixInMemory& other = access(lane).matrix;
    if (other.data == first.data && other.ldm == first.ldm && other.col_major == first.col_major) {
      continue;
    }
    const SourcePlace& here = source_place(caller.wait_address);
    report_block(Report::kLanesNameMatrices, caller.wait_address,
                 "  Warp " + std::to_string(caller.warp()) + " lanes 0 and " +
                     std::to_string(lane) + " at " + short_location(here) + "   " +
                     source_text(here) +
                     "\n  All 32 lanes must pass the same pointer, ldm and layout. The launch ends "
                     "here.\n");
    core.kill_launch();
  }
  check_matrix(caller, access(0));
  if (counts_accesses()) account_for_matrix(caller.warp(), access(0));
}

void load_matrix(FragmentType type, void* x, MatrixInMemory matrix) {
  Thread& self = *running_thread();
  const std::uintptr_t return_address = as_address(__builtin_return_address(0));
  access_matrix(self, {type, matrix, AccessKind::kRead}, return_address);
  if (element_bytes(type) == 4) {
    copy_in<std::uint32_t>(type, matrix, self.lane(), x);
  } else {
    copy_in<std::uint16_t>(type, matrix, self.lane(), x);
  }
  if (core.recorder.on()) log_matrix(self, {type, matrix, AccessKind::kRead}, return_address);
}

void store_matrix(FragmentType type, const void* x, MatrixInMemory matrix) {
  Thread& self = *running_thread();
  const std::uintptr_t return_address = as_address(__builtin_return_address(0));
  access_matrix(self, {type, matrix, AccessKind::kWrite}, return_address);
  if (element_bytes(type) == 4) {
    copy_out<std::uint32_t>(type, matrix, self.lane(), x);
  } else {
    copy_out<std::uint16_t>(type, matrix, self.lane(), x);
  }
  if (core.recorder.on()) log_matrix(self, {type, matrix, AccessKind::kWrite}, return_address);
}

// ---- Products ----------------------------------------------------------------------------------

namespace {

// A lane's arguments of a product.
struct MatrixProduct {
  FragmentType type_d, type_a, type_b, type_c;
  void* d;
  const void *a, *b, *c;
};

constexpr int kMostElements = 32 * 16;

// The matrix that 32 lanes hold, row by row, in float.
template <class T, class Decode>
void gather(FragmentType type, const void* const fragments[32], float* out, Decode decode) {
  for (const FragmentOrder::Holder at : order_of(type).holder) {
    *out++ = decode(static_cast<const T*>(fragments[at.lane])[at.slot]);
  }
}

void gather_matrix(FragmentType type, const void* const fragments[32], float* out) {
  switch (type.element) {
    case MatrixElement::kHalf:
      return gather<std::uint16_t>(type, fragments, out, decode16<HalfFormat>);
    case MatrixElement::kBfloat16:
      return gather<std::uint16_t>(type, fragments, out, decode16<Bfloat16Format>);
    case MatrixElement::kFloat:
      return gather<float>(type, fragments, out, [](float value) { return value; });
  }
}

// Writes an accumulator to the lanes' fragments.
void scatter_matrix(FragmentType type, const float* in, void* const fragments[32]) {
  for (const FragmentOrder::Holder at : order_of(type).holder) {
    if (type.element == MatrixElement::kFloat) {
      static_cast<float*>(fragments[at.lane])[at.slot] = *in++;
    } else {
      static_cast<std::uint16_t*>(fragments[at.lane])[at.slot] =
          encode16<HalfFormat, Round::kNearestEven>(*in++);
    }
  }
}

// d += a · b, in the order of k: each product is exact, each sum is rounded to float. A GPU adds
// several products at once and rounds differently, so the last bits differ.
template <int n>
void multiply(int m, int k, const float* a, const float* b, float* d) {
  for (int row = 0; row < m; ++row, d += n) {
    for (int i = 0; i < k; ++i) {
      const float factor = a[row * k + i];
      for (int col = 0; col < n; ++col) d[col] += factor * b[i * n + col];
    }
  }
}

}  // namespace

// All lanes have arrived: the last one computes for all.
void finish_product(const Thread* lanes) {
  const auto product = [&](int lane) {
    return reinterpret_cast<const MatrixProduct*>(lanes[lane].call.value);
  };
  const MatrixProduct& first = *product(0);
  const void *a[32], *b[32], *c[32];
  void* d[32];
  for (int lane = 0; lane < 32; ++lane) {
    a[lane] = product(lane)->a;
    b[lane] = product(lane)->b;
    c[lane] = product(lane)->c;
    d[lane] = product(lane)->d;
  }
  alignas(64) float left[kMostElements], right[kMostElements], sum[kMostElements];
  gather_matrix(first.type_a, a, left);
  gather_matrix(first.type_b, b, right);
  gather_matrix(first.type_c, c, sum);
  const int m = first.type_a.m, k = first.type_a.k;
  core.events.note_product(m, first.type_a.n, k);
  if (first.type_a.n == 8) multiply<8>(m, k, left, right, sum);
  if (first.type_a.n == 16) multiply<16>(m, k, left, right, sum);
  if (first.type_a.n == 32) multiply<32>(m, k, left, right, sum);
  scatter_matrix(first.type_d, sum, d);
}

void multiply_matrices(FragmentType type_d, void* d, FragmentType type_a, const void* a,
                       FragmentType type_b, const void* b, FragmentType type_c, const void* c) {
  MatrixProduct product{type_d, type_a, type_b, type_c, d, a, b, c};
  core.warp_calls.call(*running_thread(), {WarpCall::Kind::kProduct, ~0u, as_address(&product), 0},
                       as_address(__builtin_return_address(0)));
}

}  // namespace cuflash::simt
