// Constants that kernels share.
#ifndef CUFLASH_DEVICE_CONSTANTS_H_
#define CUFLASH_DEVICE_CONSTANTS_H_

namespace cuflash {

constexpr float kLog2e = 1.4426950408889634f;  // log2 e: exp(x) = 2^(x · kLog2e)
constexpr float kLn2 = 0.6931471805599453f;    // ln 2: ln x = kLn2 · log2 x

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_CONSTANTS_H_
