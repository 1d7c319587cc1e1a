// Records the events of the warps of one block, each in program order, for the player of a run.
#ifndef CUFLASH_SIMT_BLOCK_RECORDER_H_
#define CUFLASH_SIMT_BLOCK_RECORDER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simt/access_log.h"
#include "simt/access_sites.h"
#include "simt/machine.h"
#include "simt/tensor_box.h"

namespace cuflash::simt {

// A request that RequestCounter has joined and counted.
struct CountedRequest {
  std::uint16_t site;
  bool shared;
  std::uint32_t mask;
  const std::uintptr_t* address;  // by lane
  std::uint64_t sectors, wavefronts, conflicts;
};

// An mbarrier by its address, a named barrier by its number.
struct RecordedBarrier {
  std::uintptr_t key;
  bool named;
};

// Receives the requests of the recorded block from the RequestCounter. Another operation of a
// thread is a mark at a place in its trace: it precedes the warp's next request there. Lanes that
// execute one operation together leave one mark each; the first mark found becomes the warp's
// event.
class BlockRecorder {
 public:
  void turn(bool on) { on_ = on; }
  // True while the recorded block runs.
  bool on() const { return in_block_; }

  void begin_block();
  void end_block();
  void mark(const Thread& self, WarpEvent::Kind kind, std::uintptr_t return_address,
            int pending = 0);
  // Marks an operation at a phase of a barrier.
  void mark_at_barrier(const Thread& self, WarpEvent::Kind kind, std::uintptr_t return_address,
                       const RecordedBarrier& barrier, int phase);
  void end_phase(const RecordedBarrier& barrier);
  // Marks a copy of a box as an event in each memory. Its bytes count in global memory. If it ends
  // with an arrival, `barrier` is the place of the arrival.
  void mark_box(const Thread& self, WarpEvent::Kind kind, std::uint16_t site,
                const std::vector<BoxChunk>& chunks, std::uint64_t bytes, std::uint64_t sectors,
                const RecordedBarrier* barrier = nullptr, int phase = 0);
  void mark_tile(const Thread& self, const char* name, int number);
  // These two sites are one asynchronous copy.
  void note_copy(std::uint16_t read_site, std::uint16_t write_site) {
    if (on()) copy_sites_.insert({read_site, write_site});
  }

  // The next requests and marks are this warp's.
  void begin_flush(int warp) { warp_ = warp; }
  void request(const CountedRequest& request);
  void end_flush();

  std::vector<BlockRun> take();

 private:
  using Key = std::pair<WarpEvent::Kind, int>;  // kind and place
  struct Mark {
    std::size_t after;  // how many accesses of the thread come first
    bool of_tile;
    WarpTile tile;  // for a mark of a tile: the tile that begins
    WarpEvent event;
    int number;  // of such events of this thread, counted from 0
  };
  struct Lane {
    std::size_t taken = 0;  // accesses that are part of a request by now
    WarpTile tile;
    std::deque<Mark> marks;
    std::map<Key, int> made;
  };
  void add_mark(const Thread& self, WarpEvent event);
  void add_box(const Thread& self, WarpEvent box, const std::vector<std::uintptr_t>& pieces);
  void take_marks(int lane);
  int place_of(const SourcePlace& place);
  ArrayNumbers::Place array_at(std::uintptr_t address);
  int barrier_at(const RecordedBarrier& barrier);
  WarpEvent event(WarpEvent::Kind kind, int place) const;

  bool on_ = false, in_block_ = false;
  int warp_ = 0;
  std::vector<BlockRun> runs_;
  Counts before_;
  std::vector<Lane> lanes_;                                  // by thread
  std::vector<std::map<Key, int>> made_;                     // by warp: events
  std::map<std::tuple<std::string, int, int>, int> places_;  // by file, line, kernel_line
  std::unordered_map<std::uintptr_t, ArrayNumbers::Place> array_places_;
  std::unordered_map<std::uintptr_t, int> barrier_places_;
  ArrayNumbers arrays_;
  std::set<std::uint16_t> copy_sites_;
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_BLOCK_RECORDER_H_
