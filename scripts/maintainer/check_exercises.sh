#!/usr/bin/env bash
# Checks the exercises on the CPU simulator: outside its holes each equals the stage's kernel; as it is
# made it fails; with the stage's own lines it passes; and each wrong answer of
# tests/grader/NN_name.txt gets the diagnosis that stands beside it.
#   scripts/maintainer/check_exercises.sh [N/M | NAME]
# With N/M, 0 <= N < M, only every M-th of all these, from the N-th on. With a NAME, 02_5_probabilities, only that
# exercise.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

need "${PACKAGES_RUN[@]}" "${PACKAGES_SIMT[@]}" "${PACKAGES_TEST[@]}" python3
need_versions
jobs=$(nproc)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

python3 scripts/maintainer/exercise_variants.py build/simt/exercise_variants "$@"
build simt exercise_check
pids=()
for ((n = 0; n < jobs; ++n)); do
  build/simt/bin/exercise_check "$n" "$jobs" >"$scratch/$n" &
  pids+=($!)
done
failed=0
for ((n = 0; n < jobs; ++n)); do
  wait "${pids[n]}" || failed=1
done
cat "$scratch"/*
if ((failed)); then die "Some answers did not get their diagnosis: see FAIL above."; fi
say "Every answer got its diagnosis."
