// The ratio of two series of times that were measured alternately. Host code that needs no GPU.
#ifndef CUFLASH_BENCH_RATIO_H_
#define CUFLASH_BENCH_RATIO_H_

#include <vector>

namespace cuflash::bench {

// A median, and half of its 95 % interval. The interval's ends are two of the sorted values. It is
// valid for every distribution, because a value is below the median with probability 1/2.
struct Median {
  double value, spread;
};

// Needs at least 6 values: fewer have no such interval.
Median median_of(std::vector<double> values);

struct Ratio {
  double value, spread;  // B / A, as a Median
  double a, b;           // the medians of A and of B
};

// For times that were measured in the order A B B A, A B B A, ... Each such group has one ratio,
// (B + B) / (A + A), in which drift and the effect of the order within a pair cancel.
Ratio ratio_of(const std::vector<double>& times);

// True if B takes longer than A: by more than 1 %, and by more than twice the spread.
bool is_slower(double ratio, double spread);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_RATIO_H_
