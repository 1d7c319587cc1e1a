#!/usr/bin/env bash
# Prints the screens that the pages show, from the CPU simulator:
#   scripts/maintainer/screens.sh FOLDER
# leaves ladder.txt, ladder.json, stages.json, the memory maps and the prologue's screens there. They are the
# same on every machine, so CI compares them with docs/results/cpu-simulator; to renew those, from a
# clean tree:
#   scripts/maintainer/screens.sh docs/results/cpu-simulator && python3 scripts/maintainer/update_pages.py
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ $# == 1 && $1 != -* ]] || usage_error "usage: scripts/maintainer/screens.sh FOLDER"
out=$1

need "${PACKAGES_RUN[@]}" "${PACKAGES_SIMT[@]}"
need_versions
build simt ladder prologue
mkdir -p "$out"
unset COLUMNS # The screens have the width of a file.
ladder=build/simt/bin/ladder
# The ladder records the commit, and if the tree is clean: nothing in the tree may change before.
mkdir -p build/screens
"$ladder" --json build/screens/ladder.json >build/screens/ladder.txt
mv build/screens/ladder.* "$out"
"$ladder" --list --json "$out/stages.json"
for stage in 05 06; do
  "$ladder" --map "$stage" --dtype f16 --shape b1_h1_q64k64_d64 | tail -n +3 >"$out/${stage}_map.txt"
done
for lesson in $(build/simt/bin/prologue --list); do
  build/simt/bin/prologue "$lesson" >"$out/prologue_$lesson.txt"
done
