#!/usr/bin/env bash
# Builds the ladder and runs it, on your GPU or on none.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/options.sh
source scripts/options.sh

usage() {
  cat <<'END'
Usage: scripts/run.sh [OPTION...]

Runs every stage on a real input, checks each against the reference, and prints one table.
Installs what is missing through apt and builds only what it needs. If there is an NVIDIA GPU
and nvcc, it uses them; otherwise the kernels run on the CPU simulator (common/simt).

Which stages (at most one of these)
  --stage STAGE       one stage: 05_wmma, or 05, 5, wmma
  --diff A B          the lines of the kernels that change from stage A to stage B, then --compare
  --compare A B       what the step from stage A to stage B buys
  --annotate STAGE    the stage's source, each line with what it asks for (CPU simulator)
  --map STAGE         the stage's shared memory (CPU simulator)
  --play STAGE [STAGE]
                      one block's run on a small problem, step by step, as a page for a browser:
                      build/play/STAGE.html; with --text or --json instead as text or in FILE;
                      of two stages side by side (CPU simulator)
  --list              list the stages and stop

On which problem
  --shape SHAPE       random inputs of this shape, b2_h4x1_q77k131_d64: batch, query heads x KV
                      heads, lengths of Q and K, head_dim; with a window
                      b1_h2_q77k131_d64_left16_right3; or the name of any test
  --input DIR         the folder of q.npy, k.npy and v.npy; default: bench/data
  --dtype TYPE        the element type, such as f32 or bf16; default: f16
  --causal            a query sees no key after it
  --pass PASS         forward, backward or both; default: both

How
  --text              with --play: print the run, a line for each step
  --break             with --play of one stage: also runs with known faults, such as a barrier
                      removed; the kernel is compiled once for each
  --schedule ORDER    the order of threads: inorder, reversed, random:SEED, or lagging:SEED, in
                      which the last lane of a warp runs as late as it can (CPU simulator)
  --block X,Y,Z       show only this block's findings (CPU simulator)
  --json FILE         also write the results to this file

An option marked (CPU simulator) runs there even if there is a GPU. A table is as wide as the
terminal; the variable COLUMNS sets another width.

Exit status: 0 if everything that ran is correct; 1 if something is wrong or nothing ran; 2 if the
command line is wrong. The command line is checked before anything is built.

For example:
  scripts/run.sh --stage 01 --pass backward --causal
  scripts/run.sh --shape b2_h4x1_q77k131_d64 --dtype bf16
  scripts/run.sh --annotate 02
  scripts/run.sh --play 03 --break
  scripts/run.sh --diff 01 02
END
}

if among --help "$@" || among -h "$@"; then
  usage
  exit 0
fi

# renamed A B FILE: A's FILE with B's namespace.
renamed() {
  local find='s/^namespace \(cuflash::[a-z0-9_]*\) {$/\1/p'
  sed "s/\b$(sed -n "$find" "stages/$1/$3")\b/$(sed -n "$find" "stages/$2/$3")/" "stages/$1/$3"
}

# changes A B FILE: the lines that differ, apart from the name of the namespace.
changes() { diff <(renamed "$@") "stages/$2/$3" || true; }

# diff_file A B FILE: shows how FILE changes from stage A to stage B.
diff_file() {
  local file lines old=stages/$1/$3 new=stages/$2/$3
  [[ -e $old || -e $new ]] || return 0
  for file in "$old" "$new"; do
    [[ -e $file ]] || { printf 'There is no %s.\n\n' "$file" && return 0; }
  done
  diff --color=auto -u --label "$old" --label "$new" <(renamed "$@") "$new" || true
  lines=$(changes "$@")
  printf '\n%s: %s lines removed, %s added\n\n' "$3" \
    "$(grep -c '^<' <<<"$lines" || true)" "$(grep -c '^>' <<<"$lines" || true)"
}

# diff_stages A B: shows how the kernels change. If only B has a backward pass, it names the stage
# whose pass that one continues: the last before B that has one.
diff_stages() {
  local file stage from='' forward=''
  for file in kernel.cuh kernel_bwd.cuh; do diff_file "$1" "$2" "$file"; done
  [[ -e stages/$2/kernel_bwd.cuh && ! -e stages/$1/kernel_bwd.cuh ]] || return 0
  for file in stages/[0-9]*/kernel_bwd.cuh; do
    stage=$(basename "$(dirname "$file")")
    [[ ! $stage < $2 ]] || from=$stage
  done
  [[ -n $from ]] || return 0
  [[ ! -e stages/$2/kernel.cuh || -n $(changes "$1" "$2" kernel.cuh) ]] ||
    forward="$2 repeats the forward pass of $1. "
  printf '%sThe backward pass is new. It continues that of %s: scripts/run.sh --diff %s %s\n\n' \
    "$forward" "$from" "${from%%_*}" "${2%%_*}"
}

read_options "$@"
if among --diff "${!given[@]}"; then
  read -ra pair <<<"${given[--diff]}"
  diff_stages "${pair[@]}"
fi

preset=simt
if has_gpu; then
  if has_nvcc; then
    preset=release
    for option in "${FOR_SIMULATOR[@]}"; do
      ! among "$option" "${!given[@]}" || preset=simt
    done
  else
    say "There is a GPU here but no nvcc: using the CPU simulator. To use the GPU, install the CUDA toolkit."
  fi
fi

packages=("${PACKAGES_RUN[@]}")
[[ $preset == release ]] || packages+=("${PACKAGES_SIMT[@]}")
breaks=
! among --break "${!given[@]}" || breaks=yes
[[ -z $breaks ]] || packages+=(python3)
need "${packages[@]}"
need_versions
build "$preset" ladder
if [[ -n $breaks ]]; then
  with_progress "Running ${given[--play]} with its faults" \
    scripts/maintainer/broken_runs.py "${arguments[@]}" ||
    exit 1
  [[ -z ${given[--json]:-} ]] || exit 0
  arguments=(--play "build/play/${given[--play]}.json")
fi
exec "build/$preset/bin/ladder" "${arguments[@]}"
