#include "faults.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace cuflash::exercises {
namespace {

using simt::AccessKind;
using simt::Report;
using Kind = simt::FindingKind;
using Access = simt::FindingAccess;

std::string line(const Access& access) { return access.location + ", `" + access.source + '`'; }

bool is_race(Kind kind) { return kind == Kind::kSharedRace || kind == Kind::kGlobalRace; }

bool of_copies(Kind kind) { return kind == Kind::kMbarrier || kind == Kind::kAsyncCopy; }

// The cause before what may follow from it.
int rank(const simt::Finding& finding) {
  const Kind kind = finding.kind();
  if (kind == Kind::kDivergentBarrier) return 0;
  if (is_race(kind)) return 1;
  if (kind == Kind::kOutOfBounds) return 2;
  // A product that is not waited for still reads its tiles; an operand may be overwritten because
  // a copy came too early.
  if (kind == Kind::kAsyncProduct && finding.report != Report::kOperandOverwritten) return 3;
  return of_copies(kind) ? 4 : 5;
}

Diagnosis race_of_writes(const std::string& array, const Access& a, const Access& b) {
  if (a.location == b.location && a.warp == b.warp) {
    return {"race-of-lanes", "Several lanes of a warp write the same element of " + array +
                                 ", all of them at " + line(a) +
                                 ". Each element needs one owner: let one lane write it."};
  }
  if (a.location == b.location) {
    return {"race-two-writers",
            "Two threads write the same element of " + array + ", both at " + line(a) +
                ". Each element needs one owner: divide the elements among the threads."};
  }
  return {"race-two-writers", "Two threads write the same element of " + array + ": " + line(a) +
                                  " and " + line(b) +
                                  ". Each element needs one owner, or a barrier between the two."};
}

// What orders threads in a kernel whose warps have roles; no __syncthreads() does.
constexpr const char* kOrderOfRoles =
    " A named barrier orders them, or an arrival at an mbarrier and a wait for that phase. One "
    "lane's arrival stands for its warp only behind a __syncwarp().";

constexpr const char* kOrderOfProducts =
    " A product reads it until the wgmma_wait() that covers its group: an arrival or a barrier "
    "that "
    "lets others write there belongs behind that wait.";

// The finding names first what the program means to come first. `roles`: see kOrderOfRoles.
Diagnosis race(const simt::Finding& finding, bool roles) {
  const std::string& array = finding.array;
  const Access &first = finding.accesses[0], &second = finding.accesses[1];
  if (first.block || second.block) {
    return {
        "race-between-blocks",
        "Two blocks of one launch use the same element of " + array +
            ", and nothing orders blocks. Each element needs one block that owns it: each tile is "
            "taken by one block, and rows of it before the first of its head or past the last "
            "belong to another head."};
  }
  const std::string barrier = roles                       ? "barrier"
                              : first.warp == second.warp ? "__syncwarp()"
                                                          : "__syncthreads()";
  const bool writes_first = first.kind != AccessKind::kRead;
  if (writes_first && second.kind != AccessKind::kRead) return race_of_writes(array, first, second);
  Diagnosis said;
  if (writes_first) {
    said = {"race-read-early", array + " is read before all threads have written it: no " +
                                   barrier + " orders the write at " + line(first) +
                                   " before the read at " + line(second) + "."};
    said.causes = roles ? kOrderOfRoles
                  : barrier == "__syncwarp()" || first.tile == second.tile
                      ? ""
                      : " A warp that skips a barrier in one round of a loop is one behind in all "
                        "later ones.";
    return said;
  }
  said = {"race-overwrite", array + " is overwritten while other threads still read it: no " +
                                barrier + " orders the read at " + line(first) +
                                " before the next write at " + line(second) + "."};
  said.causes = first.of_product ? kOrderOfProducts
                : roles          ? kOrderOfRoles
                : first.tile == second.tile
                    ? ""
                    : " In a loop it stands between the last read of one round and the first write "
                      "after it.";
  return said;
}

bool is_kv(const std::string& array) {
  return array == "K" || array == "V" || array == "dK" || array == "dV";
}

Diagnosis stray_access(const simt::Finding& finding, const std::string& where, const Trait* trait) {
  const bool writes = finding.accesses.front().kind == AccessKind::kWrite;
  if (trait != nullptr && std::string(trait->id) == "grouped-heads" && is_kv(finding.array)) {
    return {"kv-head-is-query-head",
            "With grouped heads " + finding.array +
                " is accessed outside its bounds: " + line(finding.accesses.front()) +
                ". There are fewer KV heads than query heads, so a query head's number is not "
                "the number of its KV head: kv_head(p, h) is."};
  }
  const bool before = finding.offset < 0;
  const bool later_tiles = trait != nullptr && std::string(trait->id).rfind("ragged-later", 0) == 0;
  return {
      "out-of-bounds",
      finding.array + " is " + (writes ? "written" : "read") + " outside its bounds " + where +
          ": " + line(finding.accesses.front()) +
          (before ? ". It lies before the first element: an index is negative, as the rows of "
                    "a tile before the first are."
                  : ". A thread that has no element of its own must access none: the last block "
                    "and the last tile are rarely full.") +
          (later_tiles ? std::string(" ") + trait->advice : "")};
}

Diagnosis uninitialised(const simt::Finding& finding, const std::string& where,
                        const Trait* trait) {
  std::string message = "Values of " + finding.array + " that nobody has written are read " +
                        where + ": " + line(finding.accesses.front()) + '.';
  if (trait != nullptr && std::string(trait->id).rfind("ragged", 0) == 0) {
    return {"uninitialised-tail",
            message +
                " The last tile must be written although it is partial, and the rows that fill it "
                "up as zeros: 0 times an uninitialised value may be NaN."};
  }
  Diagnosis said = {"uninitialised", message};
  if (trait != nullptr) said.causes = std::string(" ") + trait->advice;
  return said;
}

// "k_empty[0] has had 3 of 4 arrivals in phase 1, v_full[0] 0 of 1 arrival in phase 2, the named
// barrier 2: 128 of 256 threads"
std::string states(const simt::Finding& finding) {
  std::string words;
  for (const simt::FindingBarrier& barrier : finding.barriers) {
    words += words.empty() ? barrier.name + " has had " : ", " + barrier.name + ' ';
    words += std::to_string(barrier.arrived) + " of " + simt::counted(barrier.arrivals, "arrival");
    if (barrier.bytes_expected != 0) {
      words += " and " + std::to_string(barrier.bytes_copied) + " of " +
               simt::counted(barrier.bytes_expected, "byte");
    }
    words += " in phase " + std::to_string(barrier.phase);
  }
  // Only the report's lines tell of the others, a line for each warp that waits.
  const std::string at = "   at barrier ";
  for (std::size_t n = 0; (n = finding.why.find(at, n)) != std::string::npos; ++n) {
    const std::size_t begin = n + at.size();
    const std::string named =
        ", the named barrier " + finding.why.substr(begin, finding.why.find('\n', begin) - begin);
    if (words.find(named) == std::string::npos) words += named;
  }
  return words;
}

constexpr std::optional<Report> kOthers;

// What is said of a report, or of all others of a kind, and what usually causes it. filled() fills
// in what stands in braces.
struct Words {
  Kind kind;
  std::optional<Report> report;
  const char *id, *message, *causes = "";
};

constexpr const char* kNoProxyFence =
    "{array} is written by threads, then read by a product or by TMA, without a proxy fence: the "
    "write at {first}, the read at {last}. A barrier alone does not order the two. Each thread "
    "calls fence_proxy_async() behind its writes, and then comes to the barrier.";

// The last is said of all that are not here.
constexpr Words kWords[] = {
    {Kind::kAsyncCopy, Report::kBoxCopyOverReads, "stage-not-empty",
     "{array} may be copied into while warps still read it: nothing orders the read at {first} "
     "before the copy at {last}.",
     " A warp arrives at the barrier of the empty buffer after the last read of all of its lanes, "
     "and the thread that requests waits for that phase, by its parity."},
    {Kind::kAsyncCopy, Report::kReadOfBoxCopy, "stage-not-full",
     "{array} is read before it has arrived: no wait for the phase of the copy at {first} comes "
     "before the read at {last}.",
     " The wait is missing, stands too late, or names another barrier or parity; or the arrival "
     "did not name the copy's bytes, and the phase ended without them."},
    {Kind::kAsyncCopy, Report::kWriteOverBoxCopy, "copy-over-copy",
     "{array} is written while a copy to it is under way: the copy at {first}, then {last}.",
     " Each box needs a place of its own, and a place is free again once its copy has been waited "
     "for."},
    {Kind::kAsyncCopy, Report::kBoxCopyWithoutWait, "copy-not-awaited",
     "A copy to {array} is begun that no thread waits for: {first}.",
     " It is requested once too often, or the wait for its phase is missing."},
    {Kind::kAsyncCopy, Report::kSourceOfStoreOverwritten, "store-not-awaited",
     "{array} is overwritten while a store may still read it: {place}. The thread that begins a "
     "store ends its group with tensor_store_commit() and waits by tensor_store_wait_read<n>(), "
     "for all groups but the last n, before the source is said to be empty."},
    {Kind::kAsyncCopy, Report::kStoreWithoutWait, "store-not-awaited",
     "A store of {array} is begun that its thread does not wait for: {place}. "
     "tensor_store_commit() ends its group, and tensor_store_wait_read<n>() waits until all groups "
     "but the last n have read their source."},
    {Kind::kAsyncCopy, Report::kWriteOverStore, "stored-again",
     "{array} is written while a store to it is under way: the store at {first}, then {last}. Each "
     "element needs one owner: a tile is stored once."},
    {Kind::kAsyncCopy, Report::kReadOfStore, "store-not-awaited",
     "{array} is read while a store to it is under way: the store at {first}, the read at {last}. "
     "What it writes is there behind the tensor_store_wait() that covers its group."},
    {Kind::kMbarrier, Report::kMbarrierDeadlock, "mbarrier-deadlock",
     "No thread can go on: {barriers}.",
     " An arrival or a copy's bytes are missing, or a wait names the wrong parity. A thread that "
     "waits must not be one that is to arrive."},
    {Kind::kMbarrier, Report::kTooManyArrivals, "mbarrier-arrivals",
     "More arrive at {array} than mbarrier_init() says for a phase: {last}.",
     " The phase ends with the last arrival that was announced, too early for the others."},
    {Kind::kMbarrier, Report::kArrivalInLaterPhase, "mbarrier-arrivals",
     "An arrival at {array} may come before the phase that it is meant for begins, and would be "
     "one too many for the phase before: {last}.",
     " More arrive than mbarrier_init() says, one arrives at the barrier of another buffer, or a "
     "tile is requested before the wait for its empty buffer."},
    {Kind::kMbarrier, Report::kMoreBytesThanExpected, "mbarrier-bytes",
     "More bytes are copied than a phase of {array} expects: {last}.",
     " It ends before all of them are there. The arrival names the bytes of all boxes that the "
     "phase brings: bytes, not elements."},
    {Kind::kMbarrier, Report::kWaitPhaseLate, "mbarrier-parity",
     "A wait at {array} names the wrong parity, or comes too late: {last}.",
     " The phase before the current one has the other parity. So this wait is for a phase that is "
     "still to end, and on a GPU it does not return before that."},
    {Kind::kMbarrier, Report::kMbarrierOutOfRange, "mbarrier-range",
     "{array} is given a number that it cannot take: {last}. The parity of a wait is 0 or 1, and a "
     "phase has at least one arrival."},
    {Kind::kDivergentBarrier, Report::kNamedBarrierDeadlock, "named-barrier-deadlock",
     "Threads wait at a named barrier to which the others do not come: {place}.",
     " An arrival is missing, comes at another barrier, or waits itself for one that is still to "
     "come."},
    {Kind::kDivergentBarrier, Report::kNamedBarrierTooSoon, "named-barrier-too-soon",
     "A named barrier is used again before its last use is known to be over: {place}.",
     " The threads could have been counted then: there is an arrival too many, or it comes too "
     "early, or the number of threads is too small."},
    {Kind::kDivergentBarrier, Report::kNamedBarrierOfTwoSizes, "named-barrier-sizes",
     "Calls at one named barrier name different numbers of threads: {place}.",
     " It is the number of all that come, of those that wait and of those that only arrive."},
    {Kind::kDivergentBarrier, Report::kNamedBarrierWithoutWarp, "named-barrier-too-soon",
     "A named barrier opens when only some lanes of a warp have come: {place}.",
     " Others have come to it that were not meant to be counted, or lanes of the warp skip it. "
     "Those that wait for each other in turn need a barrier each."},
    {Kind::kDivergentBarrier, kOthers, "divergent-barrier",
     "Not all threads of the block reach the same __syncthreads(): a barrier is in a branch or a "
     "loop that some of them skip."},
    {Kind::kWarpMask, kOthers, "warp-mask",
     "Threads are missing from an operation of their warp or warpgroup: it is in a branch or a "
     "loop that some of them skip."},
    {Kind::kMisaligned, kOthers, "misaligned",
     "An access to {array} is not aligned: a vector begins at a multiple of its size, a matrix at "
     "a multiple of 32 bytes, and its leading dimension is a multiple of 16 bytes."},
    {Kind::kAsyncCopy, Report::kWriteWithoutProxyFence, "no-proxy-fence", kNoProxyFence},
    {Kind::kAsyncProduct, Report::kOperandWithoutProxyFence, "no-proxy-fence", kNoProxyFence},
    {Kind::kAsyncCopy, Report::kAccessWithoutProxyFence, "no-proxy-fence",
     "{array} is accessed by threads and by TMA, without a proxy fence: {first}, then {last}. What "
     "orders threads does not order these two: the thread that comes first, or the one that has "
     "waited for it, calls fence_proxy_async_global() in between."},
    {Kind::kAsyncCopy, Report::kCountBeforeEndOfStore, "count-before-store",
     "A store of {array} is announced to other blocks before it has ended: the store at {first}, "
     "then the count at {last}. tensor_store_wait_read() waits until its source has been read; "
     "tensor_store_wait() until what it writes is there."},
    {Kind::kAsyncCopy, kOthers, "copy-in-flight",
     "An asynchronous copy is not waited for in time: {place}. Its data arrive at the "
     "cp_async_wait() that covers its group; until then its destination and its source belong to "
     "the copy."},
    {Kind::kMbarrier, kOthers, "mbarrier", "An mbarrier is used wrongly ({title}): {last}."},
    {Kind::kBlockOrder, kOthers, "later-block",
     "A thread waits for a count that no block changes that has begun: {place}. Blocks that begin "
     "later may begin only when this one has ended; or it waits for the count of another tile, or "
     "for another number."},
    {Kind::kMissingPage, kOthers, "missing-page",
     "A key is looked up in a page that does not exist: {place}. No page is missing in this "
     "problem, "
     "so the entry, the sequence or the key is another one than in the stage."},
    {Kind::kAsyncProduct, Report::kProductWithoutFence, "product-without-fence",
     "A product is issued that no wgmma_fence() orders with the threads' earlier accesses to its "
     "registers: {place}. The fence stands after the last of them, before the first product."},
    {Kind::kAsyncProduct, Report::kRegisterInFlight, "product-not-awaited",
     "Registers of a product are used while it may still run: {place}. A wgmma_wait() that covers "
     "its group comes first: wgmma_commit() ends the group, and wgmma_wait<n>() leaves the last n "
     "groups running."},
    {Kind::kAsyncProduct, Report::kProductWithoutWait, "product-not-awaited",
     "A product is issued that no wgmma_wait() covers: {place}. Its group ends with "
     "wgmma_commit(), and wgmma_wait<n>() leaves the last n groups running."},
    {Kind::kAsyncProduct, Report::kOperandOverwritten, "product-in-flight",
     "{array} is written while a product may read it: the product at {first}, then {last}. Its "
     "operands are free behind the wgmma_wait() that covers its group, and for other warpgroups "
     "behind a barrier after that."},
    {Kind::kLaunchLimit, Report::kTooFewRegisters, "too-few-registers",
     "A warpgroup waits for registers that no other gives back: {place}. Together the warpgroups "
     "of a block have those of the launch. setmaxnreg_dec() leaves so many, setmaxnreg_inc() takes "
     "as many."},
    {Kind::kLaunchLimit, kOthers, "launch-refused", "The launch exceeds a limit of the device."},
    {Kind::kNullPointer, kOthers, "no-such-memory",
     "A pointer or an index leads to an address without memory."},
};

std::string filled(std::string words, const simt::Finding& finding) {
  const auto& accesses = finding.accesses;
  const std::pair<const char*, std::string> named[] = {
      {"{array}", finding.array},
      {"{place}", finding.location},
      {"{title}", finding.title()},
      {"{first}", accesses.empty() ? finding.location : line(accesses.front())},
      {"{last}", accesses.empty() ? finding.location : line(accesses.back())},
      {"{barriers}", states(finding)},
  };
  for (const auto& [name, value] : named) {
    const std::size_t at = words.find(name);
    if (at != std::string::npos) words.replace(at, std::strlen(name), value);
  }
  return words;
}

// How many buffers there are depends on head_dim.
Diagnosis of_buffers(Diagnosis diagnosis, const std::string& where, const Trait* trait) {
  if (trait != nullptr && std::string(trait->id) == "widest") {
    diagnosis.message += " This is so " + where + ". " + trait->advice;
  }
  return diagnosis;
}

Diagnosis in_words(const simt::Finding& finding, const Sample& sample, const std::string& where,
                   const Trait* trait) {
  const Kind kind = finding.kind();
  if (is_race(kind)) return race(finding, sample.own.barrier_calls > 0);
  if (kind == Kind::kOutOfBounds) return stray_access(finding, where, trait);
  if (kind == Kind::kUninitialised) return uninitialised(finding, where, trait);
  const auto fits = [&](const Words& words) {
    return words.kind == kind && (!words.report || words.report == finding.report);
  };
  const Words& words = *std::find_if(kWords, std::prev(std::end(kWords)), fits);
  Diagnosis said = {words.id, filled(words.message, finding)};
  said.causes = words.causes;
  return of_copies(kind) ? of_buffers(std::move(said), where, trait) : said;
}

bool has_like(const Sample& sample, const simt::Finding& finding) {
  const auto& found = sample.check.faults;
  return std::any_of(found.begin(), found.end(), [&](const harness::Fault& fault) {
    return fault.finding.kind() == finding.kind() && fault.finding.array == finding.array;
  });
}

// The simulator's report, under a heading that says where.
std::string report(const Sample& sample, const simt::Finding& finding) {
  const auto& runs = sample.check.runs;
  const auto right =
      std::count_if(runs.begin(), runs.end(), [](const harness::Run& run) { return run.right(); });
  return finding.message(sample.name + ", kernel " + harness::short_kernel_name(finding.kernel)) +
         "  The result was correct under " + std::to_string(right) + " of " +
         std::to_string(runs.size()) + " schedules.\n";
}

// A diagnosis, and the arrays that it holds for; the first is in its message.
struct Named {
  Diagnosis diagnosis;
  std::vector<std::string> arrays;
};

// True if what is missing is a __syncwarp().
bool of_warp(const Diagnosis& diagnosis) {
  return diagnosis.message.find("no __syncwarp") != std::string::npos;
}

void add(std::vector<Named>& named, Diagnosis diagnosis, const std::string& array) {
  for (Named& one : named) {
    auto& arrays = one.arrays;
    const bool holds = std::find(arrays.begin(), arrays.end(), array) != arrays.end();
    // What is read too early is also read uninitialised: once is enough.
    if (holds && one.diagnosis.id == "race-read-early") return;
    if (one.diagnosis.id != diagnosis.id || of_warp(one.diagnosis) != of_warp(diagnosis)) continue;
    if (!holds) arrays.push_back(array);
    return;
  }
  named.push_back({std::move(diagnosis), {array}});
}

Diagnosis finished(Named named) {
  if (named.arrays.size() > 1) {
    named.diagnosis.message += " The same holds for";
    for (std::size_t n = 1; n < named.arrays.size(); ++n) {
      named.diagnosis.message += (n == 1 ? " " : ", ") + named.arrays[n];
    }
    named.diagnosis.message += '.';
  }
  return std::move(named.diagnosis);
}

}  // namespace

std::vector<Diagnosis> faults(const std::vector<Sample>& samples) {
  std::vector<std::pair<const Sample*, const harness::Fault*>> list;
  for (const Sample& sample : samples) {
    for (const harness::Fault& fault : sample.check.faults) list.push_back({&sample, &fault});
  }
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return rank(a.second->finding) < rank(b.second->finding);
  });
  std::vector<Named> named;
  for (const auto& [sample, fault] : list) {
    const simt::Finding& finding = fault->finding;
    const auto bad = [&](const Sample& s) { return has_like(s, finding); };
    Diagnosis diagnosis =
        in_words(finding, *sample, where_bad(samples, bad), distinguishing_trait(samples, bad));
    diagnosis.details = report(*sample, finding);
    add(named, std::move(diagnosis), finding.array);
  }
  std::vector<Diagnosis> diagnoses;
  for (Named& one : named) diagnoses.push_back(finished(std::move(one)));
  if (diagnoses.size() > 1) {
    diagnoses.front().message +=
        ' ' + std::to_string(diagnoses.size() - 1) + " more may follow from it.";
    diagnoses.resize(1);
  }
  return diagnoses;
}

}  // namespace cuflash::exercises
