#!/usr/bin/env bash
# Builds the ladder and runs it, on your GPU or on none.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'END'
Usage: scripts/run.sh [OPTION...]

Runs every stage on a real input, checks each against the reference, and prints one table.
Installs what is missing through apt, builds only what it needs. Where there is an NVIDIA GPU
and nvcc, it uses them; elsewhere the kernels run on the CPU simulator (common/simt).

  --diff A B    the lines of the kernels that change from stage A to stage B, then what that step
                buys, as the ladder's --compare shows it

All other options are the ladder's own; those of the CPU simulator run there even where a GPU is. For
example:
  scripts/run.sh --list
  scripts/run.sh --stage 01 --pass backward --causal
  scripts/run.sh --shape b2_h4x1_q77k131_d64 --dtype bf16
  scripts/run.sh --annotate 02
  scripts/run.sh --diff 01 02
END
  local ladder
  for ladder in build/release/bin/ladder build/simt/bin/ladder; do
    if [[ -x $ladder ]]; then
      printf '\n'
      exec "$ladder" --help
    fi
  done
  printf '\nOnce it is built, --help also lists them.\n'
  exit 0
}

[[ ${1:-} != -h && ${1:-} != --help ]] || usage

# diff_file A B FILE: how FILE changes from stage A to stage B, but for the name of its namespace.
diff_file() {
  local file old=stages/$1/$3 new=stages/$2/$3 find='s/^namespace \(cuflash::[a-z0-9_]*\) {$/\1/p' before changes
  [[ -e $old || -e $new ]] || return 0
  for file in "$old" "$new"; do
    [[ -e $file ]] || { printf 'There is no %s.\n\n' "$file" && return 0; }
  done
  before=$(sed "s/\b$(sed -n "$find" "$old")\b/$(sed -n "$find" "$new")/" "$old")
  diff --color=auto -u --label "$old" --label "$new" <(printf '%s\n' "$before") "$new" || true
  changes=$(diff <(printf '%s\n' "$before") "$new" || true)
  printf '\n%s: %s lines removed, %s added\n\n' "$3" \
    "$(grep -c '^<' <<<"$changes" || true)" "$(grep -c '^>' <<<"$changes" || true)"
}

arguments=()
preset_of_gpu=release
while (($#)); do
  case $1 in
    --diff)
      (($# > 2)) || die "--diff needs two stages, by number or name."
      old=$(stage_named "$2")
      new=$(stage_named "$3")
      for file in kernel.cuh kernel_bwd.cuh; do diff_file "$old" "$new" "$file"; done
      arguments+=(--compare "$old" "$new")
      shift 2
      ;;
    --annotate | --annotate=* | --map | --map=* | --schedule | --schedule=* | --block | --block=*)
      preset_of_gpu=simt
      arguments+=("$1")
      ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

preset=simt
if has_gpu; then
  if has_nvcc; then
    preset=$preset_of_gpu
  else
    say "There is a GPU here but no nvcc: running on the CPU simulator. Install the CUDA toolkit to use it."
  fi
fi

need "${PACKAGES_RUN[@]}"
[[ $preset == release ]] || need "${PACKAGES_SIMT[@]}"
need_versions
build "$preset" ladder
exec "build/$preset/bin/ladder" "${arguments[@]}"
