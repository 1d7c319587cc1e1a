// cp.reduce.async.bulk: a store that adds floats to those in global memory. The rest is as in
// tensor_store.cpp.
#include <device/ptx/bulk_reduce.h>

#include <cstring>

#include "simt/core.h"

namespace cuflash::simt {

void TensorStores::issue_reduction(const Thread& self, std::uintptr_t to, std::uintptr_t from,
                                   int bytes, std::uintptr_t return_address) {
  constexpr std::size_t kChunk = BoxChunk::kBytes;
  const std::uint16_t site =
      core.sites.id(return_address, AccessKind::kRead, kChunk, sizeof(float));
  TensorStore reduction;
  reduction.adds = true;
  reduction.write_site = core.sites.id(return_address, AccessKind::kAtomic, kChunk, sizeof(float));
  core.check_operand(self, from, kChunk, site, true, "cp.reduce.async.bulk reads");
  core.check_alignment(self, to, kChunk, reduction.write_site);
  const auto size = static_cast<std::size_t>(bytes);
  if (size % kChunk != 0) {
    report_access(Report::kMisaligned, self, &core.shared().region(), from, site,
                  "The size of a reduction must be a multiple of 16 bytes; this one is " +
                      std::to_string(bytes) + ". The launch ends here.");
    core.kill_launch();
  }
  check_span(self, from, size, site);
  for (std::size_t at = 0; at < size; at += kChunk) {
    reduction.chunks.push_back({from + at, to + at, 0, kChunk});
  }
  begin(self, std::move(reduction), site);
}

void add_floats(std::uintptr_t sums, const TensorStore::Data& terms) {
  float term[sizeof terms / sizeof(float)];
  std::memcpy(term, terms.data(), sizeof terms);
  float* const sum = reinterpret_cast<float*>(sums);
  for (std::size_t e = 0; e < std::size(term); ++e) sum[e] += term[e];
}

void issue_bulk_reduction(float* sums, const void* shared, int bytes) {
  core.tensor_stores.issue_reduction(*running_thread(), as_address(sums), as_address(shared), bytes,
                                     as_address(__builtin_return_address(0)));
}

}  // namespace cuflash::simt
