#!/usr/bin/env bash
# Makes anew what the pages show and needs no GPU: the CPU simulator's screens, what nvcc says, the history of speeds, the
# figures, and the pages' tables, from the results that are there. gpu.sh measures the others.
#   scripts/maintainer/regenerate.sh --list
#   scripts/maintainer/regenerate.sh [STEP...]
# The first shows the steps, their times and their files. The second runs all, or those that are named, from a
# clean tree; what differs then is shown by git diff. A step's output is in build/regenerate.
set -euo pipefail
# shellcheck source=scripts/maintainer/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

# The machine code of the prologue's kernel, up to its end.
prologue_sass() {
  build release prologue
  PYTHONPATH=scripts/maintainer python3 - build/release/bin/prologue <<'END_OF_PYTHON' >build/regenerate/sass.txt
import sys
from machine_code import kernels
from record import nvcc_version
listing, = (code for name, code in kernels(sys.argv[1], "-arch=sm_90") if "scale_and_add" in name)
for line in listing:
    guard = f"@{line.predicate} " if line.predicate else ""
    print(f"/*{line.address:04x}*/  {guard}{line.name} {line.operands}".rstrip())
    if line.name == "EXIT" and not guard:
        break
print(f"\nscale_and_add, compute capability 9.0, nvcc V{nvcc_version()}")
END_OF_PYTHON
  cp build/regenerate/sass.txt docs/results/nvcc/prologue_sass.txt
}

wheel() {
  scripts/maintainer/wheel.sh build/wheel "$(scripts/maintainer/pytorch.sh)"
  cp build/wheel/wheel.txt docs/results/nvcc/
}

# ---- The steps: about how many seconds on two idle cores after a build, and their files --------------

step screens 20 "results/cpu-simulator/ladder.* results/cpu-simulator/stages.json results/cpu-simulator/??_map.txt results/cpu-simulator/prologue_*.txt" \
  "scripts/maintainer/screens.sh docs/results/cpu-simulator"
step quarter_hour 270 \
  "results/cpu-simulator/01_exercise.txt results/cpu-simulator/02_race.txt results/cpu-simulator/quarter_hour.txt" \
  "tests/readme/replay.py --record"
step races 60 "results/cpu-simulator/race_*.txt" "tests/docs/races_test.py --record"
step simt_speed 10 results/cpu-simulator/simt_speed.txt \
  "build simt simt_speed; build/simt/bin/simt_speed | tee docs/results/cpu-simulator/simt_speed.txt"
if [[ ${1:-} == --list ]] || { has_nvcc && command -v cuobjdump >/dev/null; }; then
  step prologue_sass 30 results/nvcc/prologue_sass.txt prologue_sass
  step wheel 1800 results/nvcc/wheel.txt wheel
else
  say "There are no nvcc and cuobjdump here: docs/results/nvcc stays as it is."
fi
step history 1 results/history.json scripts/maintainer/history.py
step loss_curve 5 figures/train_char_gpt.svg "/usr/bin/python3 scripts/maintainer/loss_curve.py" # Debian's Matplotlib
step figures 10 "figures/*.svg" docs/figures/make.py
step player_picture 200 figures/player.png \
  "build simt ladder; docs/players.py; /usr/bin/python3 scripts/maintainer/player_picture.py"
step pages 5 "*.md" "python3 scripts/maintainer/update_pages.py; scripts/maintainer/paper_lines.py"

if [[ ${1:-} == --list ]]; then
  list_steps
  exit
fi
check_steps "$@"
need "${PACKAGES_RUN[@]}" "${PACKAGES_SIMT[@]}" "${PACKAGES_TEST[@]}" "${PACKAGES_FIGURES[@]}" "${PACKAGES_BROWSER[@]}"
take_turn
rm -rf build/regenerate
run_steps 0 build/regenerate "$@"
