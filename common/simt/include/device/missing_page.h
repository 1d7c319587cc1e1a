// Notes that a key lies in a page that does not exist: a finding of the simulator.
#ifndef CUFLASH_DEVICE_MISSING_PAGE_H_
#define CUFLASH_DEVICE_MISSING_PAGE_H_

namespace cuflash {

void note_missing_page(int key, int page);

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_MISSING_PAGE_H_
