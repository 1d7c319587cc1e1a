// What the simulator found, in the words of the hazard behind it.
#ifndef CUFLASH_GRADER_FAULTS_H_
#define CUFLASH_GRADER_FAULTS_H_

#include "sample.h"

namespace cuflash::exercises {

// One diagnosis for each array and kind of fault; races first.
std::vector<Diagnosis> faults(const std::vector<Sample>& samples);

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_FAULTS_H_
