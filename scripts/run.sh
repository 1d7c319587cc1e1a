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
and nvcc, it uses them; elsewhere the kernels run on the CPU machine (common/simt).

The options are the ladder's own. For example:
  scripts/run.sh --list
  scripts/run.sh --stage 01 --pass backward --causal
  scripts/run.sh --shape b2_h4x1_q77k131_d64 --dtype bf16
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

preset=simt
if has_gpu; then
  if has_nvcc; then
    preset=release
  else
    say "There is a GPU here but no nvcc: running on the CPU machine. Install the CUDA toolkit to use it."
  fi
fi

need "${PACKAGES_RUN[@]}"
[[ $preset == release ]] || need "${PACKAGES_SIMT[@]}"
need_versions
build "$preset" ladder
exec "build/$preset/bin/ladder" "$@"
