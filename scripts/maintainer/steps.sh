# shellcheck shell=bash
# A list of steps, for gpu.sh and regenerate.sh, which source it. It sources lib.sh.
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

names=() seconds=() files=() commands=()

# step NAME SECONDS FILES COMMAND: adds a step, about how long it takes, the files that it makes, and
# bash for it.
step() { names+=("$1") seconds+=("$2") files+=("$3") commands+=("$4"); }

# list_steps: shows the steps.
list_steps() {
  local n
  for n in "${!names[@]}"; do printf '%-29s %4s s  %s\n' "${names[n]}" "${seconds[n]}" "${files[n]}"; done
}

# chosen NAME WORD...: true if a word is the name or its beginning (tried: tried_10_tma), or there is none.
chosen() {
  local word
  (($# > 1)) || return 0
  for word in "${@:2}"; do
    [[ $1 != "$word" && $1 != "$word"_* ]] || return 0
  done
  return 1
}

# check_steps WORD...: stops if a word names no step.
check_steps() {
  local word name
  for word; do
    for name in "${names[@]}"; do
      ! chosen "$name" "$word" || continue 2
    done
    usage_error "There is no step \"$word\". $0 --list shows all."
  done
}

# run_steps LIMIT LOGS [WORD...]: runs the chosen steps, each within LIMIT seconds; 0 is no limit. The output
# of a step becomes LOGS/STEP.log; one with a log is not repeated. True if no step failed.
run_steps() {
  local limit=$1 logs=$2 n name begin status=0
  mkdir -p "$logs"
  # shellcheck disable=SC2046  # the names of functions
  export -f $(compgen -A function)
  for n in "${!names[@]}"; do
    name=${names[n]} begin=$SECONDS
    chosen "$name" "${@:3}" || continue
    if [[ -e $logs/$name.log ]]; then
      printf '%s: there already\n' "$name"
    elif timeout "$limit" bash -euo pipefail -c "${commands[n]}" >"$logs/$name.failed" 2>&1; then
      mv "$logs/$name.failed" "$logs/$name.log"
      printf '%s: ok, %s s\n' "$name" $((SECONDS - begin))
      grep -E '^\[  (PASSED|SKIPPED)|SUMMARY' "$logs/$name.log" | tail -n 3 || true
    else
      printf '%s: FAILED (exit %s), %s s\n' "$name" $? $((SECONDS - begin))
      tail -n 25 "$logs/$name.failed"
      status=1
    fi
  done
  return "$status"
}
