// The CPU simulator's address of shared memory: a pointer.
#ifndef CUFLASH_SIMT_DEVICE_PTX_SHARED_ADDRESS_H_
#define CUFLASH_SIMT_DEVICE_PTX_SHARED_ADDRESS_H_

namespace cuflash::ptx {

struct SharedAddress {
  char* value;

  SharedAddress(const void* shared) : value(const_cast<char*>(static_cast<const char*>(shared))) {}
  SharedAddress& operator+=(int bytes) {
    value += bytes;
    return *this;
  }
};

inline SharedAddress operator+(SharedAddress address, int bytes) { return address += bytes; }

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_SHARED_ADDRESS_H_
