// The list of all stages, in teaching order. A new stage is one declaration and one line here.
#include "cuflash/stage.h"

#define CUFLASH_DECLARE_STAGE(name) \
  namespace cuflash::name {         \
  extern const Stage kStage;        \
  }

CUFLASH_DECLARE_STAGE(naive)
CUFLASH_DECLARE_STAGE(tiled)
CUFLASH_DECLARE_STAGE(online_softmax)
CUFLASH_DECLARE_STAGE(register_tiles)
CUFLASH_DECLARE_STAGE(wmma)
CUFLASH_DECLARE_STAGE(forward_backward)
CUFLASH_DECLARE_STAGE(mma_registers)
CUFLASH_DECLARE_STAGE(swizzle)
CUFLASH_DECLARE_STAGE(async_copy)
CUFLASH_DECLARE_STAGE(tma)
CUFLASH_DECLARE_STAGE(wgmma)
CUFLASH_DECLARE_STAGE(warp_specialized)
CUFLASH_DECLARE_STAGE(ping_pong)
CUFLASH_DECLARE_STAGE(persistent)
CUFLASH_DECLARE_STAGE(wgmma_backward)
CUFLASH_DECLARE_STAGE(overlapped_backward)
CUFLASH_DECLARE_STAGE(persistent_backward)
CUFLASH_DECLARE_STAGE(dq_on_the_way)
CUFLASH_DECLARE_STAGE(split_kv)
CUFLASH_DECLARE_STAGE(paged_kv)

// Stages that only this checkout has (scripts/new_stage.sh): CUFLASH_LOCAL_STAGE(name) each.
#define CUFLASH_LOCAL_STAGE CUFLASH_DECLARE_STAGE
#include "local_stages.inc"
#undef CUFLASH_LOCAL_STAGE

namespace cuflash {

const std::vector<const Stage*>& stages() {
#define CUFLASH_LOCAL_STAGE(name) &name::kStage,
  // Never destroyed: a call may come from a destructor that runs at exit.
  static const auto& list = *new std::vector<const Stage*>{
      &naive::kStage,
      &tiled::kStage,
      &online_softmax::kStage,
      &register_tiles::kStage,
      &wmma::kStage,
      &forward_backward::kStage,
      &mma_registers::kStage,
      &swizzle::kStage,
      &async_copy::kStage,
      &tma::kStage,
      &wgmma::kStage,
      &warp_specialized::kStage,
      &ping_pong::kStage,
      &persistent::kStage,
      &wgmma_backward::kStage,
      &overlapped_backward::kStage,
      &persistent_backward::kStage,
      &dq_on_the_way::kStage,
      &split_kv::kStage,
      &paged_kv::kStage,
#include "local_stages.inc"
  };
  return list;
}

}  // namespace cuflash
