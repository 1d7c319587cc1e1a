// Numbers that kernels share.
#ifndef CUFLASH_DEVICE_CONSTANTS_H_
#define CUFLASH_DEVICE_CONSTANTS_H_

namespace cuflash {

constexpr float kLog2e = 1.4426950408889634f;  // exp(x) = 2^(x · kLog2e)

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_CONSTANTS_H_
