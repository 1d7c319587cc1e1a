// The text of a finding.
#include "simt/finding.h"

#include <algorithm>
#include <iterator>

namespace cuflash::simt {
namespace {

struct ReportFacts {
  Report report;
  FindingKind kind;
  const char* title;
};

constexpr ReportFacts kReports[] = {
    {Report::kSharedRace, FindingKind::kSharedRace, "RACE in shared memory"},
    {Report::kGlobalRace, FindingKind::kGlobalRace, "RACE in global memory"},
    {Report::kOutOfBounds, FindingKind::kOutOfBounds, "OUT OF BOUNDS"},
    {Report::kUseAfterFree, FindingKind::kUseAfterFree, "USE AFTER FREE"},
    {Report::kUninitialised, FindingKind::kUninitialised, "READ OF UNINITIALISED MEMORY"},
    {Report::kMisaligned, FindingKind::kMisaligned, "MISALIGNED ACCESS"},
    {Report::kNoMemory, FindingKind::kNullPointer, "NO SUCH MEMORY"},
    {Report::kDivergentBarrier, FindingKind::kDivergentBarrier, "DIVERGENT BARRIER"},
    {Report::kNamedBarrierDeadlock, FindingKind::kDivergentBarrier, "DEADLOCK AT A NAMED BARRIER"},
    {Report::kNamedBarrierOutOfRange, FindingKind::kDivergentBarrier, "NAMED BARRIER OUT OF RANGE"},
    {Report::kNamedBarrierOfTwoSizes, FindingKind::kDivergentBarrier, "NAMED BARRIER OF TWO SIZES"},
    {Report::kNamedBarrierTooSoon, FindingKind::kDivergentBarrier,
     "NAMED BARRIER USED AGAIN TOO SOON"},
    {Report::kNamedBarrierWithoutWarp, FindingKind::kDivergentBarrier,
     "NAMED BARRIER WITHOUT A WHOLE WARP"},
    {Report::kWrongMask, FindingKind::kWarpMask, "WRONG WARP MASK"},
    {Report::kShuffleFromOutside, FindingKind::kWarpMask, "SHUFFLE FROM A LANE OUTSIDE"},
    {Report::kMaskNamesAbsentLane, FindingKind::kWarpMask, "WARP MASK WITH AN ABSENT LANE"},
    {Report::kMatrixWithoutAllLanes, FindingKind::kWarpMask, "MATRIX OPERATION WITHOUT ALL LANES"},
    {Report::kLanesNameMatrices, FindingKind::kWarpMask, "LANES PASS DIFFERENT MATRICES"},
    {Report::kThreadsNameMatrices, FindingKind::kWarpMask, "THREADS PASS DIFFERENT MATRICES"},
    {Report::kWarpgroupWithoutAllThreads, FindingKind::kWarpMask,
     "WARPGROUP OPERATION WITHOUT ALL THREADS"},
    {Report::kLaunchRefused, FindingKind::kLaunchLimit, "LAUNCH REFUSED"},
    {Report::kTooFewRegisters, FindingKind::kLaunchLimit, "TOO FEW REGISTERS"},
    {Report::kReadOfCopy, FindingKind::kAsyncCopy, "READ OF A COPY IN FLIGHT"},
    {Report::kWriteOverCopy, FindingKind::kAsyncCopy, "WRITE OVER A COPY IN FLIGHT"},
    {Report::kCopyWithoutWait, FindingKind::kAsyncCopy, "COPY WITHOUT A WAIT"},
    {Report::kSourceOfCopyOverwritten, FindingKind::kAsyncCopy, "SOURCE OF A COPY OVERWRITTEN"},
    {Report::kReadOfBoxCopy, FindingKind::kAsyncCopy, "READ OF A STAGE THAT IS NOT FULL"},
    {Report::kWriteOverBoxCopy, FindingKind::kAsyncCopy, "WRITE OVER A COPY IN FLIGHT"},
    {Report::kBoxCopyWithoutWait, FindingKind::kAsyncCopy, "COPY WITHOUT A WAIT"},
    {Report::kBoxCopyOverReads, FindingKind::kAsyncCopy, "COPY INTO A STAGE THAT IS NOT EMPTY"},
    {Report::kReadWithoutProxyFence, FindingKind::kAsyncCopy, "READ WITHOUT A PROXY FENCE"},
    {Report::kWriteWithoutProxyFence, FindingKind::kAsyncCopy, "WRITE WITHOUT A PROXY FENCE"},
    {Report::kAccessWithoutProxyFence, FindingKind::kAsyncCopy, "ACCESS WITHOUT A PROXY FENCE"},
    {Report::kReadOfStore, FindingKind::kAsyncCopy, "READ OF A STORE IN FLIGHT"},
    {Report::kWriteOverStore, FindingKind::kAsyncCopy, "WRITE OVER A STORE IN FLIGHT"},
    {Report::kStoreWithoutWait, FindingKind::kAsyncCopy, "STORE WITHOUT A WAIT"},
    {Report::kSourceOfStoreOverwritten, FindingKind::kAsyncCopy, "SOURCE OF A STORE OVERWRITTEN"},
    {Report::kCountBeforeEndOfStore, FindingKind::kAsyncCopy, "COUNT BEFORE THE END OF A STORE"},
    {Report::kMbarrierDeadlock, FindingKind::kMbarrier, "DEADLOCK AT AN MBARRIER"},
    {Report::kMbarrierNotInitialised, FindingKind::kMbarrier, "MBARRIER NOT INITIALISED"},
    {Report::kMbarrierOutOfRange, FindingKind::kMbarrier, "MBARRIER OUT OF RANGE"},
    {Report::kMbarrierWithoutFence, FindingKind::kMbarrier, "MBARRIER WITHOUT ITS FENCE"},
    {Report::kTooManyArrivals, FindingKind::kMbarrier, "TOO MANY ARRIVALS"},
    {Report::kArrivalInLaterPhase, FindingKind::kMbarrier, "ARRIVAL IN A LATER PHASE"},
    {Report::kMoreBytesThanExpected, FindingKind::kMbarrier, "MORE BYTES THAN EXPECTED"},
    {Report::kWaitPhaseLate, FindingKind::kMbarrier, "WAIT A FULL PHASE LATE"},
    {Report::kOperandWithoutProxyFence, FindingKind::kAsyncProduct, "WRITE WITHOUT A PROXY FENCE"},
    {Report::kOperandOverwritten, FindingKind::kAsyncProduct, "OPERAND OF A PRODUCT OVERWRITTEN"},
    {Report::kProductWithoutFence, FindingKind::kAsyncProduct, "PRODUCT WITHOUT A FENCE"},
    {Report::kProductWithoutWait, FindingKind::kAsyncProduct, "PRODUCT WITHOUT A WAIT"},
    {Report::kRegisterInFlight, FindingKind::kAsyncProduct, "REGISTER OF A PRODUCT IN FLIGHT"},
    {Report::kWaitForLaterBlock, FindingKind::kBlockOrder, "WAIT FOR A LATER BLOCK"},
    {Report::kMissingPage, FindingKind::kMissingPage, "NO SUCH PAGE"},
};

constexpr bool in_order() {
  int number = 0;
  for (const ReportFacts& facts : kReports) {
    if (static_cast<int>(facts.report) != number++) return false;
  }
  return number == static_cast<int>(Report::kMissingPage) + 1;
}
static_assert(in_order(), "a report without its facts");

constexpr const char* kWithoutNames =
    "  Arrays in shared memory appear as byte offsets, and their padding is not checked, because "
    "the kernel has no debug information that can be read (built without -g, stripped, or built by "
    "clang).\n";

std::string triple(const BlockIndex& v) {
  return '(' + std::to_string(v.x) + ',' + std::to_string(v.y) + ',' + std::to_string(v.z) + ')';
}

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::kRead:
      return "read";
    case AccessKind::kWrite:
      return "write";
    default:
      return "atomic";
  }
}

std::size_t num_characters(const std::string& utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

// Lines with aligned columns, from rows with equal numbers of cells.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> lines(rows.size(), "   ");
  for (std::size_t column = 0; column < rows[0].size(); ++column) {
    std::size_t width = 0;
    for (const auto& row : rows) width = std::max(width, num_characters(row[column]));
    if (width == 0) continue;
    // All verbs but one have at most five letters.
    if (column == 0) width = std::max<std::size_t>(width, 5);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t gap = column == 0 ? 2 : 3;
      lines[i] += rows[i][column] + std::string(width - num_characters(rows[i][column]) + gap, ' ');
    }
  }
  std::string text;
  for (const std::string& line : lines)
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  return text;
}

std::string who(const FindingAccess& access) {
  return (access.block ? "block " + triple(*access.block) + ' ' : "") +
         (access.thread ? "thread " + triple(*access.thread) + ' ' : "") + "warp " +
         std::to_string(access.warp) + " lane " + std::to_string(access.lane);
}

// One line per access: kind, thread, place, tile.
std::string access_lines(const std::vector<FindingAccess>& accesses) {
  if (accesses.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const FindingAccess& access : accesses) {
    rows.push_back({verb(access.kind), who(access), access.location, access.source, access.tile});
  }
  return aligned(rows);
}

}  // namespace

std::string counted(std::int64_t count, const char* singular) {
  return std::to_string(count) + ' ' + singular + (count == 1 ? "" : "s");
}

FindingKind Finding::kind() const { return kReports[static_cast<int>(report)].kind; }

std::string Finding::title() const { return kReports[static_cast<int>(report)].title; }

std::string Finding::text() const {
  std::string text = element.empty() ? "" : "  " + element + '\n';
  for (const FindingBarrier& barrier : barriers) {
    text += "  " + barrier.name + "\n   phase " + std::to_string(barrier.phase) + ": " +
            std::to_string(barrier.arrived) + " of " + counted(barrier.arrivals, "arrival") + ", " +
            std::to_string(barrier.bytes_copied) + " of " +
            counted(barrier.bytes_expected, "byte") + '\n';
  }
  text += access_lines(accesses) + why;
  if (count > 1) {
    text.back() = ' ';
    text += ' ' + counted(static_cast<std::int64_t>(count) - 1, "similar finding") + ".\n";
  }
  return explains_missing_names ? text + kWithoutNames : text;
}

std::string Finding::message(const std::string& subject) const {
  return title() + ": " + subject + (block ? ", block " + triple(*block) : "") + '\n' + text();
}

}  // namespace cuflash::simt
