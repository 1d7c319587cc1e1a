// The accesses of a call, element by element.
#include "access_history.h"

#include <algorithm>
#include <stdexcept>

#include "copy_stage.h"
#include "costs.h"
#include "harness/reference_outputs.h"

namespace cuflash::exercises {
namespace {

class History : public GraderTest {
 protected:
  static AccessHistory of(const Stage& stage, const Problem& p = copy_problem()) {
    return {stage, CUFLASH_FORWARD, p, inputs(p)};
  }
  static const harness::Inputs& inputs(const Problem& p) {
    return harness::reference_outputs(CUFLASH_FORWARD, p, {})->inputs;
  }
  static std::string name(const Element& e) {
    return array_name(e.array) + ' ' + std::to_string(e.row) + ' ' + std::to_string(e.column);
  }
  // The first write of this element, by its name.
  static const Event& write_of(const AccessHistory& history, const std::string& wanted) {
    for (const Event& event : history.events()) {
      if (event.write && name(*event.element) == wanted) return event;
    }
    throw std::runtime_error("nothing writes " + wanted);
  }
};

TEST_F(History, AVectorIsSeveralElements) {
  const AccessHistory history = of(copy_stage(Planted::kNone));
  const Event& event = write_of(history, "sQ 2 7");
  EXPECT_EQ(event.thread, 2 * 8 + 7 / 4);
  EXPECT_TRUE(event.shared);
  EXPECT_EQ(event.pitch, kPitch);
  EXPECT_EQ(event.index(), 2 * kPitch + 7);
  EXPECT_EQ(event.tile, 5);
  EXPECT_EQ(event.value, inputs(copy_problem()).q[2 * kHeadDim + 7]);
}

TEST_F(History, AnElementOfATensor) {
  const AccessHistory history = of(copy_stage(Planted::kNone));
  const Event& event = write_of(history, "O 3 30");
  EXPECT_EQ(event.thread, 30);
  EXPECT_FALSE(event.shared);
  EXPECT_EQ(event.pitch, kHeadDim);
  EXPECT_EQ(event.value, inputs(copy_problem()).q[3 * kHeadDim + 30]);
  EXPECT_NE(history.place(event).source.find("gO(r, thread) ="), std::string::npos);
  EXPECT_EQ(event.epoch, write_of(history, "sQ 0 0").epoch + 1) << "there is a barrier between";
  const auto* const writes = history.writes(*event.element);
  ASSERT_NE(writes, nullptr);
  EXPECT_EQ(*writes, std::vector<const Event*>{&event});
}

TEST_F(History, LanesThatMeetInABank) {
  const AccessHistory history = of(copy_stage(Planted::kNone));
  // Two lanes that each take 16 bytes of halves of sQ, at the beginning of these rows.
  const auto said = [&](int pitch, std::int64_t other_row) {
    Element elements[16];
    std::vector<Event> events(16, write_of(history, "sQ 0 0"));
    for (int n = 0; n < 16; ++n) {
      elements[n] = *events[n].element;
      elements[n].row = n / 8 * other_row, elements[n].column = n % 8;
      events[n].element = &elements[n], events[n].thread = n / 8, events[n].pitch = pitch;
    }
    return meeting_lanes(events);
  };
  EXPECT_EQ(said(64, 1),
            " Lanes 0 and 1 access sQ[0][0] and sQ[1][0] at once: 128 bytes apart, so in the same "
            "banks.");
  EXPECT_EQ(said(32, 2),
            " Lanes 0 and 1 access sQ[0][0] and sQ[2][0] at once: 128 bytes apart, so in the same "
            "banks. A row has 64 bytes: 2 rows lie side by side in the 128 bytes of all banks.");
  EXPECT_EQ(said(72, 1), "") << "padded";
  EXPECT_EQ(said(64, 0), "") << "the same element";
}

TEST_F(History, HalvesAreDecoded) {
  const Problem p = copy_problem(CUFLASH_F16);
  const AccessHistory history = of(copy_stage(Planted::kNone), p);
  const Event& event = write_of(history, "O 1 9");
  EXPECT_EQ(event.value, inputs(p).q[kHeadDim + 9]);
}

TEST_F(History, WhatAThreadHasReadBefore) {
  const AccessHistory history = of(copy_stage(Planted::kNone));
  const Event& event = write_of(history, "O 1 9");
  std::vector<std::string> read;
  for (const Element& e : history.reads_before(event)) read.push_back(name(e));
  std::sort(read.begin(), read.end());
  EXPECT_EQ(read,
            (std::vector<std::string>{"Q 1 4", "Q 1 5", "Q 1 6", "Q 1 7", "sQ 0 9", "sQ 1 9"}));
}

TEST_F(History, WhatABlockHasReadUntilTheNextBarrier) {
  const AccessHistory history = of(copy_stage(Planted::kNone));
  const ReadsOfThreads before = history.reads_of_block(write_of(history, "sQ 0 0"));
  const ReadsOfThreads after = history.reads_of_block(write_of(history, "O 0 0"));
  EXPECT_EQ(before.size(), 32u);
  EXPECT_EQ(before.at(9).size(), 4u);
  EXPECT_EQ(after.at(9).size(), 4u + kRows);
  EXPECT_EQ(name(*after.at(9).back()->element), "sQ 3 9");
}

TEST_F(History, TheWorkspaceHoldsScoresOrDelta) {
  const AccessHistory scores = of(workspace_stage(true)), delta = of(workspace_stage(false));
  EXPECT_EQ(write_of(scores, "S 1 3").value, 16 + 3) << "rows of 16 keys";
  EXPECT_EQ(write_of(scores, "S 1 3").pitch, 16);
  EXPECT_EQ(write_of(delta, "delta 19 0").value, 19);
}

}  // namespace
}  // namespace cuflash::exercises
