// Computes rates from the time of a loop. Host code that needs no GPU.
#ifndef CUFLASH_BENCH_CEILINGS_RATES_H_
#define CUFLASH_BENCH_CEILINGS_RATES_H_

#include <cstddef>
#include <string>
#include <vector>

namespace cuflash::bench {

// The unit of a loop's work. A multiply-add is two FLOPs.
enum class Unit { kFlop, kExp2, kByte };
inline constexpr const char* kUnitNames[] = {"TFLOP/s", "T exp2/s", "TB/s"};
inline const char* unit_name(Unit unit) { return kUnitNames[static_cast<int>(unit)]; }

struct Work {
  Unit unit;
  double amount;
  const char* whole = "";  // the figure that counts as 100 % for this one; empty: none
};

// One launch of a loop.
struct Timed {
  std::vector<Work> work;  // of all SMs together
  double ms = 0.;
  double clocks = 0.;  // of an SM's loop; 0 if the loop waits for memory outside the SMs
};

// One rate of a loop. With two kinds of work a loop has two figures of one name.
struct Figure {
  std::string name, what;
  std::string skipped;  // a sentence if this GPU cannot run the loop; there are no numbers then

  Unit unit = Unit::kFlop;
  double ms = 0.;
  double tera = 0.;  // 10^12 units per second
  // For a loop on the SMs; 0 otherwise.
  double per_clock_and_sm = 0., per_ns_and_sm = 0., clock_ghz = 0.;
  std::string whole;  // a figure's name, or empty
  double share = 0.;  // this rate as a fraction of that figure's; 0 if there is none
};

// The rates of a loop, in the order of its work. Throws if the time is not positive.
std::vector<Figure> figures_of(const std::string& name, const Timed& timed, int sms);

// Fills in the shares: each figure divided by the figure `whole` of the same unit.
void add_shares(std::vector<Figure>& figures);

// The sizes of a target of additions: the largest power of two within a third of L2, which stays in
// L2, and eight times as much, most of which does not.
struct TargetBytes {
  std::size_t within_l2, beyond_l2;
};
TargetBytes target_bytes(std::size_t l2_bytes);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_CEILINGS_RATES_H_
