// Which stage computes a call: found by name, or chosen for a device.
#include "cuflash/stage.h"

namespace cuflash {
namespace {

struct Preference {
  const char* name;
  const char* reason;
};

// Fastest first. A stage that is not here runs only when it is asked for by name.
constexpr Preference kPreferences[] = {
    {"06_forward_backward", "f16 and bf16 on tensor cores, both passes"},
    {"04_register_tiles",
     "small tiles in registers: fewer loads and no conversions for each multiply-add"},
};

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

const Stage* choose_stage(Pass pass, const Problem& problem, const Device& device) {
  for (const Preference& preference : kPreferences) {
    const Stage* stage = find_stage(preference.name);
    if (stage != nullptr && supports(*stage, pass, problem, device)) return stage;
  }
  return nullptr;
}

}  // namespace cuflash
