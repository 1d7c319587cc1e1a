// Which stage computes a call: found by name, or chosen for a device.
#include "cuflash/stage.h"

namespace cuflash {
namespace {

// "01_naive" → "01" and "naive".
std::string_view number_of(std::string_view name) { return name.substr(0, name.find('_')); }
std::string_view word_of(std::string_view name) { return name.substr(name.find('_') + 1); }

}  // namespace

const Stage* find_stage(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const Stage* stage : stages()) {
    if (name == stage->name) return stage;
  }
  // A number may be shared with a local stage, which comes later in the list. Words are unique:
  // each is the namespace of its stage.
  for (const Stage* stage : stages()) {
    if (name == number_of(stage->name) || name == word_of(stage->name)) return stage;
  }
  return nullptr;
}

const Stage* choose_stage(Pass pass, const Problem& problem, const Device& device, Features also) {
  const Stage* best = nullptr;
  int highest = 0;  // a stage of rank 0 runs only by name
  for (const Stage* stage : stages()) {
    const PassFacts& facts = stage->facts(pass);
    const int rank = facts.rank != nullptr ? facts.rank(problem).value : 0;
    if (rank <= highest || !fits(*stage, pass, problem, device, also)) continue;
    highest = rank;
    best = stage;
  }
  return best;
}

}  // namespace cuflash
