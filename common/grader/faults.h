// What the simulator found, in the words of the hazard behind it.
#ifndef CUFLASH_GRADER_FAULTS_H_
#define CUFLASH_GRADER_FAULTS_H_

#include "sample.h"

namespace cuflash::exercises {

// The first fault, barriers and races before others; the others may follow from it.
std::vector<Diagnosis> faults(const std::vector<Sample>& samples);

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_FAULTS_H_
