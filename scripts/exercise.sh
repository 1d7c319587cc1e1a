#!/usr/bin/env bash
# Makes, builds and grades the exercises of a stage; scripts/test.sh exercise calls this.
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

usage="scripts/test.sh exercise STAGE [EXERCISE] [--reset | --grade json | --more | --play]"

words=()
options=()
reset=
play=
while (($#)); do
  case $1 in
    -h | --help)
      printf 'Usage: %s\n' "$usage"
      exit 0
      ;;
    --grade | --grade=*)
      value=${1#--grade}
      value=${value#=}
      if [[ $1 == --grade && -n ${2:-} ]]; then
        value=$2
        shift
      fi
      [[ $value == json ]] || usage_error "--grade takes json${value:+, not \"$value\"}."
      options=(--json)
      ;;
    --more) options=(--more) ;;
    --reset) reset=--reset ;;
    --play) play=yes ;;
    -*) usage_error "There is no option \"$1\".$(did_you_mean "$1" --grade --more --play --reset --help) Usage: $usage" ;;
    *) words+=("$1") ;;
  esac
  shift
done
((${#words[@]})) || usage_error "A stage is missing. Usage: $usage"
((${#words[@]} < 3)) || usage_error "One stage and one exercise at a time. Usage: $usage"
[[ -z $reset || (-n ${words[1]:-} && ${#options[@]} == 0) ]] ||
  usage_error "--reset discards what you wrote in one exercise: name that exercise. Usage: $usage"
[[ -z $play || (-n ${words[1]:-} && ${#options[@]} == 0 && -z $reset) ]] ||
  usage_error "--play shows the run of one answer: name its exercise. Usage: $usage"

stage=$(stage_named "${words[0]}")
shopt -s nullglob
names=(stages/"$stage"/exercises/[0-9]*.md)
names=("${names[@]##*/}")
names=("${names[@]%.md}")
((${#names[@]})) || usage_error "$stage has no exercises."
chosen=()
for name in "${names[@]}"; do
  if [[ -z ${words[1]:-} || ${words[1]} =~ ^("$name"|"${name%%_*}"|"${name#*_}")$ ]]; then
    chosen+=("$name")
  fi
done
((${#chosen[@]})) || usage_error \
  "$stage has no exercise \"${words[1]}\".$(did_you_mean "${words[1]}" "${names[@]}" "${names[@]#*_}") There are: ${names[*]}."

need python3
take_turn
pages=("${chosen[@]/#/stages/$stage/exercises/}")
states=$(python3 scripts/exercise_file.py ${reset:+"$reset"} "${pages[@]/%/.md}")
if [[ -n $reset || ($states != *begun* && ${options[*]-} != --json) ]]; then
  [[ $states == *made* ]] || die "Not begun: ${chosen[*]}."
  exit 0
fi

need "${PACKAGES_RUN[@]}" "${PACKAGES_SIMT[@]}" "${PACKAGES_TEST[@]}"
need_versions
if [[ -n $play ]]; then
  build simt ladder
  page=build/play/exercise_${stage%%_*}_${chosen[0]}
  with_progress "Running the answer" scripts/maintainer/broken_runs.py --play "$stage" \
    --answer "stages/$stage/exercises/${chosen[0]}.cuh" --json "$page.json" || exit 1
  build/simt/bin/ladder --play "$page.json"
  printf '"Break it" switches from the stage to your answer.\n'
  exit 0
fi
build simt exercises
bin=build/simt/bin
targets=("${chosen[@]/#/exercise_${stage%%_*}_}")
# Without a program and its log an exercise counts as not begun.
begun=()
for n in "${!chosen[@]}"; do
  if [[ $states == *"begun ${chosen[n]}"* ]]; then
    begun+=("${targets[n]}")
  else
    rm -f "$bin/${targets[n]}" "$bin/${targets[n]}.log"
  fi
done
# All at once; where that fails, one after the other, to tell which does not compile and why.
if ! NINJA_STATUS='[%f/%t] ' cmake --build build/simt --target exercises ${begun[@]+"${begun[@]}"} 2>&1 |
  report_progress "Compiling the exercises" >"$bin/exercises.log"; then
  for target in ${begun[@]+"${begun[@]}"}; do
    if cmake --build build/simt --target "$target" >"$bin/one.log" 2>&1; then
      cat "$bin/one.log" >>"$bin/exercises.log"
    else
      rm -f "$bin/$target"
      mv "$bin/one.log" "$bin/$target.log"
    fi
  done
fi
# The compiler's messages for an answer are kept until it is compiled again.
for target in ${begun[@]+"${begun[@]}"}; do
  [[ $bin/$target -ot $bin/$target.log ]] || cp "$bin/exercises.log" "$bin/$target.log"
done
"$bin/exercises" ${options[@]+"${options[@]}"} "$stage" "${targets[@]/#/$bin/}" |
  report_progress "Running the problems"
