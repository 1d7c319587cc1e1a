#!/usr/bin/env bash
# Builds and runs the tests, on the CPU simulator and, where there is one, on the GPU.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'END'
Usage: scripts/test.sh [STAGE]
       scripts/test.sh mutations [--list | --tested] [WORD...]
       scripts/test.sh exercise STAGE [NUMBER] [--grade json]

Without STAGE: every test on the CPU simulator (common/simt); before that, where nvcc is there,
the CUDA backend is compiled, and where there is a GPU too, its tests run.
With STAGE, a number or a name: that stage's tests only. For example:
  scripts/test.sh 01
With mutations: puts known faults into a copy of the kernels, each of which the tests must catch
(tests/mutations.ini; or only those that have a WORD in their name or file).

With exercise: grades the stage's exercises (stages/NN_name/exercises), or one of them, on the CPU
simulator, and says in words what is wrong. It succeeds when all are done. --grade json prints the
same as JSON, for lecturers. For example:
  scripts/test.sh exercise 03 2

Installs what is missing through apt.
END
}

if [[ ${1:-} == mutations ]]; then
  shift
  need "${PACKAGES_RUN[@]}" "${PACKAGES_SIMT[@]}" "${PACKAGES_TEST[@]}" python3
  need_versions
  exec python3 scripts/maintainer/mutations.py "$@"
fi
if [[ ${1:-} == exercise ]]; then
  shift
  exec scripts/exercise.sh "$@"
fi
if (($# > 1)); then
  usage >&2
  exit 2
fi
case ${1:-} in
  -h | --help)
    usage
    exit 0
    ;;
  -*)
    usage >&2
    exit 2
    ;;
esac

need "${PACKAGES_RUN[@]}" "${PACKAGES_SIMT[@]}" "${PACKAGES_TEST[@]}"
need_versions
jobs=$(nproc)

# The GoogleTest binary runs once: a process and a CUDA context for each test would cost minutes.
gpu_tests() {
  say "GPU tests:"
  CUFLASH_REQUIRE_GPU=1 build/release/bin/cuflash_tests --gtest_brief=1 "$@"
}

# One stage on the CPU simulator, its tests shared out to one process a core: the fastest verdict. Each
# process stops at its first failure: one finding teaches, thousands scroll by.
simt_shards() {
  local log shard failed=0
  local -a pids=()
  # GoogleTest is content with a filter that matches nothing.
  [[ -n $(build/simt/bin/cuflash_tests --gtest_list_tests --gtest_filter="$1*") ]] ||
    die "$1 has no tests: is it in stages/stages.cpp and stages/CMakeLists.txt?"
  log=$(mktemp -d)
  for ((shard = 0; shard < jobs; ++shard)); do
    GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$shard build/simt/bin/cuflash_tests \
      --gtest_brief=1 --gtest_fail_fast --gtest_filter="$1*" >"$log/$shard" 2>&1 &
    pids+=($!)
  done
  for ((shard = 0; shard < jobs; ++shard)); do
    wait "${pids[shard]}" || failed=1
    sed '/: Skipped$/,+1d' "$log/$shard" # what came after a first failure
  done
  rm -r "$log"
  if ((failed)); then say "$1: FAILED"; else say "$1: every test passed"; fi
  return "$failed"
}

if (($# == 1)); then
  name=$(stage_named "$1")
  build simt cuflash_tests
  if has_gpu && has_nvcc; then
    build release cuflash_tests
    gpu_tests --gtest_filter="$name*"
  fi
  simt_shards "$name"
  exit
fi

build simt all
if has_nvcc; then
  say "Compiling the CUDA backend ..."
  build release all
  if has_gpu; then
    gpu_tests
  else
    say "It compiles. There is no GPU here: its tests do not run."
  fi
else
  say "There is no nvcc here: the CUDA backend is not compiled."
fi
log=build/simt/ctest.log
failed=0
ctest --preset simt -j "$jobs" --output-log "$log" || failed=$?
grep 'tests passed' "$log" # the verdict again: a long list of skipped tests came after it
exit "$failed"
