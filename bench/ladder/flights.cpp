// Finds the asynchronous copies and products that are in flight between steps of a run, and the
// phases of barriers.
#include <algorithm>
#include <map>
#include <tuple>

#include "ladder/recorded_run.h"

namespace cuflash::bench {
namespace {

using Kind = simt::WarpEvent::Kind;

// Calls visit(step, warp, event) for each event, in the order of steps.
template <class Visit>
void for_each_event(const simt::BlockRun& run, const std::vector<Step>& steps, Visit visit) {
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (const StepPart& part : steps[step].parts) {
      for (const StepPart::Events& of : part.warps) {
        const auto& events = run.warps[static_cast<std::size_t>(of.warp)];
        for (int n = of.first; n < of.end; ++n) {
          visit(static_cast<int>(step), of.warp, events[static_cast<std::size_t>(n)]);
        }
      }
    }
  }
}

// The groups of one kind that a warp commits, with their copies or products in flight.
class Groups {
 public:
  void issue(const Flight& flight) { open_.emplace_back(committed_, flight); }
  void commit() { ++committed_; }
  // Ends the groups before the last `pending`.
  void wait(int pending, int step, std::vector<Flight>& ended) {
    const auto covered = [&](const auto& one) { return one.first + pending < committed_; };
    for (auto& [group, flight] : open_) {
      if (group + pending < committed_)
        ended.push_back({flight.kind, flight.warp, flight.from, step, flight.array});
    }
    open_.erase(std::remove_if(open_.begin(), open_.end(), covered), open_.end());
  }
  // Called at the end of the run. An operation outside a group is not asynchronous.
  void finish(std::vector<Flight>& ended) {
    for (const auto& [group, flight] : open_) {
      if (group < committed_) ended.push_back(flight);
    }
  }

 private:
  int committed_ = 0;
  std::vector<std::pair<int, Flight>> open_;
};

}  // namespace

std::vector<Flight> flights_of(const simt::BlockRun& run, const std::vector<Step>& steps) {
  const int last = static_cast<int>(steps.size()) - 1;
  struct OfWarp {
    Groups copies, products, stores;
  };
  std::vector<OfWarp> warps(run.warps.size());
  std::map<std::pair<int, int>, std::vector<Flight>> boxes;  // by barrier and phase
  std::vector<Flight> flights;
  for_each_event(run, steps, [&](int step, int warp, const simt::WarpEvent& event) {
    OfWarp& of = warps[static_cast<std::size_t>(warp)];
    const Flight flight = {event.kind, warp, step, last, event.array};
    switch (event.kind) {
      case Kind::kCopyWrite:
        of.copies.issue(flight);
        break;
      case Kind::kProduct:
        of.products.issue(flight);
        break;
      case Kind::kBoxStore:
      case Kind::kBoxAdd:
        if (event.shared) of.stores.issue(flight);
        break;
      case Kind::kBoxCopy:
        if (event.shared) boxes[{event.barrier, event.phase}].push_back(flight);
        break;
      case Kind::kCommitCopies:
        of.copies.commit();
        break;
      case Kind::kCommitProducts:
        of.products.commit();
        break;
      case Kind::kCommitStores:
        of.stores.commit();
        break;
      case Kind::kWaitCopies:
        of.copies.wait(event.pending, step, flights);
        break;
      case Kind::kWaitProducts:
        of.products.wait(event.pending, step, flights);
        break;
      case Kind::kWaitStores:
        of.stores.wait(event.pending, step, flights);
        break;
      case Kind::kWait:
        if (const auto found = boxes.find({event.barrier, event.phase}); found != boxes.end()) {
          for (Flight box : found->second) {
            box.to = step;
            flights.push_back(box);
          }
          boxes.erase(found);
        }
        break;
      default:
        break;
    }
  });
  for (OfWarp& of : warps) {
    for (Groups* groups : {&of.copies, &of.products, &of.stores}) groups->finish(flights);
  }
  for (const auto& [phase, left] : boxes) flights.insert(flights.end(), left.begin(), left.end());
  const auto fields = [](const Flight& f) {
    return std::tie(f.from, f.to, f.warp, f.kind, f.array);
  };
  std::sort(flights.begin(), flights.end(),
            [&](const Flight& a, const Flight& b) { return fields(a) < fields(b); });
  flights.erase(
      std::unique(flights.begin(), flights.end(),
                  [&](const Flight& a, const Flight& b) { return fields(a) == fields(b); }),
      flights.end());
  return flights;
}

std::vector<std::vector<int>> phases_of(const simt::BlockRun& run, const std::vector<Step>& steps) {
  std::vector<std::vector<int>> phases;
  for (const simt::BlockRun::Barrier& barrier : run.barriers) {
    phases.emplace_back(static_cast<std::size_t>(barrier.phases), 0);
  }
  for_each_event(run, steps, [&](int step, int, const simt::WarpEvent& event) {
    if (event.barrier < 0) return;
    const auto barrier = static_cast<std::size_t>(event.barrier);
    const auto phase = static_cast<std::size_t>(event.phase);
    const bool arrives = event.kind != Kind::kWait || run.barriers[barrier].named;
    if (!arrives || phase >= phases[barrier].size()) return;
    phases[barrier][phase] = std::max(phases[barrier][phase], step);
  });
  return phases;
}

}  // namespace cuflash::bench
