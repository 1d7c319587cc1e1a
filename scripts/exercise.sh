#!/usr/bin/env bash
# Builds and grades the exercises of a stage; scripts/test.sh exercise calls this.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage="scripts/test.sh exercise STAGE [EXERCISE] [--grade json]"

words=()
options=()
while (($#)); do
  case $1 in
    -h | --help)
      printf 'Usage: %s\n' "$usage"
      exit 0
      ;;
    --grade | --grade=*)
      [[ $1 != --grade || -z ${2:-} ]] || shift
      [[ ${1#--grade=} == json ]] || usage_error "--grade takes json, and nothing else."
      options=(--json)
      ;;
    -*) usage_error "There is no option \"$1\".$(did_you_mean "$1" --grade --help) Usage: $usage" ;;
    *) words+=("$1") ;;
  esac
  shift
done
((${#words[@]})) || usage_error "A stage is missing. Usage: $usage"
((${#words[@]} < 3)) || usage_error "One stage and one exercise at a time. Usage: $usage"

stage=$(stage_named "${words[0]}")
shopt -s nullglob
names=(stages/"$stage"/exercises/[0-9]*.cuh)
names=("${names[@]##*/}")
names=("${names[@]%.cuh}")
((${#names[@]})) || usage_error "$stage has no exercises."
targets=()
for name in "${names[@]}"; do
  if [[ -z ${words[1]:-} || ${words[1]} =~ ^("$name"|"${name%%_*}"|"${name#*_}")$ ]]; then
    targets+=("exercise_${stage%%_*}_$name")
  fi
done
((${#targets[@]})) || usage_error \
  "$stage has no exercise \"${words[1]}\".$(did_you_mean "${words[1]}" "${names[@]}" "${names[@]#*_}") There are: ${names[*]}."

need "${PACKAGES_RUN[@]}" "${PACKAGES_SIMT[@]}" "${PACKAGES_TEST[@]}"
need_versions
build simt exercises
bin=build/simt/bin
# All at once; if that fails, one after the other, to show which does not compile and why.
if ! NINJA_STATUS='[%f/%t] ' cmake --build build/simt --target "${targets[@]}" 2>&1 |
  report_progress "Compiling the exercises" >/dev/null; then
  for target in "${targets[@]}"; do
    cmake --build build/simt --target "$target" >"$bin/$target.log" 2>&1 || rm -f "$bin/$target"
  done
fi
exec "$bin/exercises" ${options[@]+"${options[@]}"} "$stage" "${targets[@]/#/$bin/}"
