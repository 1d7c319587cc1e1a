// The sentence that last_error_message() returns: one per thread, set by every call of the API.
#ifndef CUFLASH_API_LAST_ERROR_H_
#define CUFLASH_API_LAST_ERROR_H_

#include <string>

#include "cuflash/stage.h"

namespace cuflash {

// Keeps `sentence` for this thread's last_error_message() and returns `error`: an entry point ends
// with `return refuse(error, sentence)`.
FlashAttentionError refuse(FlashAttentionError error, std::string sentence);
inline FlashAttentionError refuse(const Support& fault) {
  return refuse(fault.error, fault.reason);
}

// Clears the sentence and returns SUCCESS.
FlashAttentionError succeed();

}  // namespace cuflash

#endif  // CUFLASH_API_LAST_ERROR_H_
