#!/usr/bin/env bash
# Runs the kernels of the prologue, docs/prologue, on the CPU simulator.
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# The names in the program's list.
mapfile -t LESSONS < <(grep -o '{"[a-z]*", [a-z]*_lesson' docs/prologue/prologue.cu | cut -d'"' -f2)

usage() {
  cat <<END_OF_USAGE
Usage: scripts/prologue.sh [LESSON]

Runs the small kernels that docs/prologue/README.md explains, on the CPU simulator, and prints what
each one shows: which thread computed an element, sectors, bank conflicts, a race. Without a name it runs
all of them. Change a kernel in docs/prologue/kernels.cuh and run it again.

The lessons: ${LESSONS[*]}
END_OF_USAGE
}

if among --help "$@" || among -h "$@"; then
  usage
  exit 0
fi
(($# <= 1)) || usage_error "scripts/prologue.sh takes at most one lesson."
for lesson in "$@"; do
  among "$lesson" "${LESSONS[@]}" || usage_error \
    "There is no lesson \"$lesson\".$(did_you_mean "$lesson" "${LESSONS[@]}") There are: ${LESSONS[*]}."
done

need "${PACKAGES_RUN[@]}" "${PACKAGES_SIMT[@]}"
need_versions
build simt prologue
exec build/simt/bin/prologue "$@"
