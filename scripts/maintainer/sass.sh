#!/usr/bin/env bash
# Prints the machine instructions (SASS) that nvcc makes of a kernel:
#   scripts/maintainer/sass.sh SOURCE.cu KERNEL ARCHITECTURE
# KERNEL is a part of the mangled name that occurs in one kernel. Needs nvcc and cuobjdump on the
# PATH. The prologue's listing, docs/results/nvcc/prologue_sass.txt, is the output of
#   scripts/maintainer/sass.sh docs/prologue/prologue.cu scale_and_add 90
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
(($# == 3)) || usage_error "usage: scripts/maintainer/sass.sh SOURCE.cu KERNEL ARCHITECTURE"
has_nvcc || die "nvcc is not on the PATH."
command -v cuobjdump >/dev/null || die "cuobjdump, of the CUDA toolkit, is not on the PATH."

cubin=$(mktemp --suffix=.cubin)
trap 'rm -f "$cubin" "$cubin.sass"' EXIT
nvcc -std=c++17 "-arch=sm_$3" -cubin -Icommon -Icommon/include -o "$cubin" "$1"
cuobjdump -sass "$cubin" >"$cubin.sass"
(($(grep -c "Function : .*$2" "$cubin.sass") == 1)) ||
  die "Not exactly one kernel of $1 has a name with \"$2\"."
# From the kernel's name to the first jump to itself, which is padding.
instruction='^ *\(/\*[0-9a-f]*\*/\) *\(.*[^ ]\) *;.*'
listing=$(sed -n "/Function : .*$2/,/BRA 0x/s|$instruction|\1  \2|p" "$cubin.sass" | sed '/BRA 0x/d')
printf '%s\n\n%s, compute capability %s.%s, %s\n' "$listing" "$2" "${3%?}" "${3: -1}" \
  "$(nvcc --version | sed -n 's/.*release.* \(V[0-9.]*\)$/nvcc \1/p')"
