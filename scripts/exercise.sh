#!/usr/bin/env bash
# Builds and grades the exercises of a stage; scripts/test.sh exercise calls this.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  say "Usage: scripts/test.sh exercise STAGE [NUMBER] [--grade json]"
  exit 2
}

words=()
options=()
while (($#)); do
  case $1 in
    --grade)
      [[ ${2:-} == json ]] || usage
      options=(--json)
      shift 2
      ;;
    -*) usage ;;
    *)
      words+=("$1")
      shift
      ;;
  esac
done
((${#words[@]} == 1 || ${#words[@]} == 2)) || usage

stage=$(stage_named "${words[0]}")
shopt -s nullglob
targets=()
for file in stages/"$stage"/exercises/*.cuh; do
  name=$(basename "$file" .cuh)
  if [[ -z ${words[1]:-} || ${words[1]} == "$name" || ${words[1]} == "${name%%_*}" ]]; then
    targets+=("exercise_${stage%%_*}_$name")
  fi
done
((${#targets[@]})) || die "$stage has no exercise ${words[1]:-}."

need "${PACKAGES_RUN[@]}" "${PACKAGES_SIMT[@]}" "${PACKAGES_TEST[@]}"
need_versions
build simt exercises
bin=build/simt/bin
# All at once; where that fails, one after the other, to tell which does not compile and why.
if ! cmake --build build/simt --target "${targets[@]}" >/dev/null 2>&1; then
  for target in "${targets[@]}"; do
    cmake --build build/simt --target "$target" >"$bin/$target.log" 2>&1 || rm -f "$bin/$target"
  done
fi
exec "$bin/exercises" ${options[@]+"${options[@]}"} "$stage" "${targets[@]/#/$bin/}"
