// 14_persistent: the producer. One thread finds work and requests its tiles; others store O.
#pragma once

#include "storage.cuh"

namespace cuflash::persistent {

// Finds the block's work, and requests Q, K and V.
template <class T, int kHeadDim>
__device__ __forceinline__ void request_work(SharedStorage<T, kHeadDim>& storage,
                                             const ForwardParams& p, const Maps& maps,
                                             const TileRounds& order, int block) {
  using C = Config<kHeadDim>;
  auto &sK = storage.sK, &sV = storage.sV;
  auto &k_full = storage.k_full, &v_full = storage.v_full;
  auto &k_empty = storage.k_empty, &v_empty = storage.v_empty;
  int taken = 0;  // tiles of keys of all earlier work
#pragma unroll 1
  for (int n = 0;; ++n) {
    const auto [q, q_phase] = slot_of<C::kQStages>(n);
    ptx::mbarrier_wait(&storage.q_empty[q], q_phase ^ 1);  // O has been read from there.
    Work<C>& work = storage.work[q];
    if (!find_work(work, p, order, block, n)) {
      ptx::mbarrier_arrive(&storage.q_full[q]);  // There is no Q to request.
      return;
    }
    const int b = work.batch, h = work.head, hk = kv_head(p, h);
    request_tile(storage.sQ[q], maps.q, work.i0, h, b, storage.q_full[q]);
    const Range key_tiles = work.key_tiles;
#pragma unroll 1
    for (int tile = key_tiles.end - 1; tile >= key_tiles.begin; --tile, ++taken) {
      const auto [stage, phase] = slot_of<C::kStages>(taken);
      ptx::mbarrier_wait(&k_empty[stage], phase ^ 1);  // The consumers have read what was there.
      request_tile(sK[stage], maps.k, tile * C::kBlockKV, hk, b, k_full[stage]);
      ptx::mbarrier_wait(&v_empty[stage], phase ^ 1);  // The consumers have read what was there.
      request_tile(sV[stage], maps.v, tile * C::kBlockKV, hk, b, v_full[stage]);
    }
  }
}

// Stores O. One lane of each of the producer's warps 1 to 3 lets TMA write the rows of every third
// consumer, a box per panel, and then gives their part of sQ back to request_work().
template <class T, int kHeadDim>
__device__ __forceinline__ void store_outputs(SharedStorage<T, kHeadDim>& storage,
                                              const ForwardParams& p, const TileMap& map,
                                              int warp) {
  using C = Config<kHeadDim>;
  using QTile = typename SharedStorage<T, kHeadDim>::QTile;
#pragma unroll 1
  for (int n = 0;; ++n) {
    const auto [q, q_phase] = slot_of<C::kQStages>(n);
    const Work<C>& work = storage.work[q];
    ptx::mbarrier_wait(&storage.q_full[q], q_phase);  // The Work is written.
    if (work.batch < 0) return;
#pragma unroll 1
    for (int c = warp - 1; c < C::kConsumers; c += kWarpgroupWarps - 1) {
      ptx::mbarrier_wait(&storage.o_full[q][c], q_phase);  // The consumer has written its O.
      const int first = c * kWgmmaM, row = work.i0 + first;
      if (row >= 0 && row < sequence(p, work.batch).num_queries) {  // Else no row exists.
#pragma unroll
        for (int panel = 0; panel < QTile::kPanels; ++panel) {
          ptx::tensor_store(map, panel * QTile::kPanelCols, row, work.head, work.batch,
                            storage.sQ[q].panels[panel][first]);
        }
        ptx::tensor_store_commit();
        ptx::tensor_store_wait_read<0>();  // O has been read from sQ.
      }
      ptx::mbarrier_arrive(&storage.q_empty[q]);  // The next Q may overwrite O.
    }
  }
}

}  // namespace cuflash::persistent
