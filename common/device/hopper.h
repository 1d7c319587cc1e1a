// The headers that warpgroup kernels share, from stage 11_wgmma on.
#ifndef CUFLASH_DEVICE_HOPPER_H_
#define CUFLASH_DEVICE_HOPPER_H_

#include "device/block_order.h"
#include "device/constants.h"
#include "device/epilogue.h"
#include "device/host/tile_map.h"
#include "device/index.h"
#include "device/mask_scores.h"
#include "device/matrix_descriptor.h"
#include "device/mma_fragments.h"
#include "device/products.h"
#include "device/ptx/exp2.h"
#include "device/ptx/mbarrier.h"
#include "device/ptx/named_barrier.h"
#include "device/ptx/setmaxnreg.h"
#include "device/ptx/tensor_copy.h"
#include "device/ptx/tensor_store.h"
#include "device/ptx/wgmma.h"
#include "device/registers.h"
#include "device/shared_memory.h"
#include "device/swizzle.h"
#include "device/tensor.h"
#include "device/tile_mark.h"
#include "device/tile_requests.h"
#include "device/tiles.h"
#include "device/warp.h"
#include "device/warpgroup.h"

#endif  // CUFLASH_DEVICE_HOPPER_H_
