// Launches in clusters. The CPU simulator runs one block at a time, and takes clusters of one.
#include "../support.h"

namespace cuflash {
namespace {

class Clusters : public DeviceTest {
 protected:
  Clusters() : DeviceTest(9) {}
};

__global__ void write_cluster_size(unsigned* sizes) {
  sizes[blockIdx.x + gridDim.x * blockIdx.y] = __clusterSizeInBlocks();
}

TEST_F(Clusters, HaveTheSizeThatTheLaunchStates) {
  const dim3 grid(8, 2);
  const unsigned blocks = grid.x * grid.y;
  for (const dim3 cluster : {dim3(1), dim3(2), dim3(8), dim3(1, 2), dim3(4, 2)}) {
    const unsigned size = cluster.x * cluster.y;
    if (simt::kSimulated && size > 1) continue;
    const Array<unsigned> sizes(std::vector<unsigned>(blocks, 99));
    run(write_cluster_size, {grid, 1, {}, nullptr, cluster}, sizes.data());
    EXPECT_EQ(sizes.values(), std::vector<unsigned>(blocks, size));
  }
}

TEST_F(Clusters, DivideTheGridOrAreRefused) {
  const Array<unsigned> sizes(std::vector<unsigned>(3, 99));
  EXPECT_EQ(launch(write_cluster_size, {3, 1, {}, nullptr, dim3(2)}, sizes.data()),
            FlashAttentionError::CUDA_ERROR);
  EXPECT_NE(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(sizes.values(), std::vector<unsigned>(3, 99));
  simt::take_findings();
}

}  // namespace
}  // namespace cuflash
