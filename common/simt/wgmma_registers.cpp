// Checks the registers of products: until the wait no code may read or write an accumulator, or
// write a left operand, and a wgmma_fence() must follow other accesses to them.
//
// Registers here are arrays on the threads' stacks. The compiler's hooks show the accesses to them,
// because their addresses are passed to the product.
#include <algorithm>

#include "simt/core.h"

namespace cuflash::simt {
namespace {

// The entry of these registers. It replaces entries that overlap it.
ProductRegisters& registers_at(Thread& self, std::uintptr_t begin, std::size_t bytes,
                               bool accumulator, std::uint16_t site) {
  std::vector<ProductRegisters>& list = self.registers;
  const std::uintptr_t end = begin + bytes;
  const auto from = std::find_if(list.begin(), list.end(),
                                 [&](const ProductRegisters& known) { return known.end > begin; });
  const auto to = std::find_if(from, list.end(),
                               [&](const ProductRegisters& known) { return known.begin >= end; });
  if (to - from == 1 && from->is(begin, bytes, accumulator)) return *from;
  const auto busy =
      std::find_if(from, to, [](const ProductRegisters& known) { return known.in_flight != 0; });
  if (busy != to) {
    report_registers(
        Report::kRegisterInFlight, {named_access(busy->product), access_of(self, site)},
        "Only a product of the same shape may use an accumulator in flight. The launch "
        "ends here.");
    core.kill_launch();
  }
  return *list.insert(list.erase(from, to), {begin, end, accumulator});
}

}  // namespace

void Products::take_registers(const WarpgroupProduct& product) {
  const auto site = static_cast<std::uint16_t>(stamp_site(product.begun));
  const auto report_fence = [&](const std::vector<NamedAccess>& accesses, const std::string& what) {
    report_registers(Report::kProductWithoutFence, accesses, what);
    last_fence_ = core.order.now();  // one report
  };
  if (last_fence_ == 0) {
    report_fence({access_of(member(0), site)},
                 "The warpgroup must call wgmma_fence() before its first product.");
  }
  const auto take = [&](Thread& thread, const void* begin, std::size_t bytes, bool accumulator) {
    ProductRegisters& registers = registers_at(thread, as_address(begin), bytes, accumulator, site);
    if (registers.in_flight == 0 && registers.touched >= last_fence_) {
      NamedAccess access = access_of(
          thread,
          core.sites.id(registers.touched_from, registers.touched_kind, registers.touched_size));
      report_fence({access, access_of(thread, site)},
                   "No wgmma_fence() lies between the access to these registers and the product.");
    }
    registers.touched = 0;
    ++registers.in_flight;
    registers.product = product.begun;
  };
  for (int t = 0; t < kWarpgroupThreads; ++t) {
    Thread& thread = member(t);
    const ProductOperands& operands = thread.warpgroup_call->operands;
    take(thread, operands.d, operands.blocks * sizeof(float[4]), true);
    if (operands.a_registers != nullptr) {
      take(thread, operands.a_registers, sizeof(std::uint32_t[4]), false);
    }
  }
}

void Products::release_registers(const WarpgroupProduct& product) {
  const auto release = [](Thread& thread, const void* pointer) {
    for (ProductRegisters& registers : thread.registers) {
      if (registers.begin == as_address(pointer)) --registers.in_flight;
    }
  };
  for (int t = 0; t < kWarpgroupThreads; ++t) {
    Thread& thread = member(t);
    release(thread, product.accumulator->registers[t]);
    if (!product.a_registers.empty()) release(thread, product.a_registers[t]);
  }
}

void on_register_access(Thread& self, std::uintptr_t address, std::size_t size, AccessKind kind,
                        std::uintptr_t return_address) {
  const auto after = std::upper_bound(
      self.registers.begin(), self.registers.end(), address,
      [](std::uintptr_t wanted, const ProductRegisters& known) { return wanted < known.begin; });
  if (after == self.registers.begin()) return;
  ProductRegisters& registers = *(after - 1);
  if (address >= registers.end) return;
  if (kind == AccessKind::kRead && !registers.accumulator) return;
  if (registers.in_flight == 0) {
    registers.touched = core.order.stamp_of(self, 0);
    registers.touched_from = return_address;
    registers.touched_kind = kind;
    registers.touched_size = size;
    return;
  }
  NamedAccess product = named_access(registers.product);
  product.thread = self.index;
  report_registers(Report::kRegisterInFlight,
                   {product, access_of(self, core.sites.id(return_address, kind, size))},
                   registers.accumulator
                       ? "Until the wgmma_wait() that covers its group, the accumulator belongs to "
                         "the product."
                       : "Until the wgmma_wait() that covers its group, the product reads its left "
                         "operand from these registers.");
}

}  // namespace cuflash::simt
