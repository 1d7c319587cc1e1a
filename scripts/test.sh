#!/usr/bin/env bash
# Builds and runs the tests, on the CPU simulator and, where there is one, on the GPU.
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

usage() {
  cat <<'END'
Usage: scripts/test.sh [STAGE]
       scripts/test.sh mutations [--list | --tested] [--part N/M [--changed]] [WORD...]
       scripts/test.sh mutations --record
       scripts/test.sh exercise STAGE [EXERCISE] [--reset | --grade json | --more | --play]

Installs what is missing through apt and builds what it needs.

Without STAGE: every test on the CPU simulator (common/simt). If there is nvcc, the CUDA backend is
compiled first; if there is a GPU too, its tests run.

With STAGE (05_wmma, or 05, 5, wmma): that stage's tests only. If there is nvcc but no GPU, nvcc then
compiles the stage for the oldest architecture that it is built for. For example:
  scripts/test.sh 01

With mutations: puts known faults (faults.ini) into a copy of the kernels and of the Python package, one
at a time. The tests must catch each. A WORD selects the faults whose name or file contains it.
  --list         print the faults and build nothing
  --tested       skip the run of the tests without a fault
  --part N/M     only every M-th fault, from the N-th on, counted from 0
  --changed      also all faults of the files that have changed since --record
  --record       if all are caught, write to tests/record with which files they were tried

With exercise: grades the stage's exercises (stages/NN_name/exercises), or the one with this number
or name, on the CPU simulator, and describes what is wrong. The first run only creates the file for
your answer, next to the exercise's page.
  --reset        create this file again: your answer is lost
  --grade json   print the grades as JSON, for lecturers
  --more         also tell what the stage does where the answer does something else
  --play         a page that plays one answer beside the stage, step by step
For example:
  scripts/test.sh exercise 03 2

Exit status: 0 if every test passes, every fault is caught or every exercise is done; 1 if not; 2 if
the command line is wrong. The command line is checked before anything is built.
END
}

if [[ ${1:-} == mutations ]]; then
  packages=("${PACKAGES_RUN[@]}" "${PACKAGES_SIMT[@]}" "${PACKAGES_TEST[@]}")
  case " $* " in
    *' --list '* | *' --help '* | *' -h '*) packages=(python3) ;;
  esac
  has_package python3 || need "${packages[@]}"
  python3 scripts/maintainer/mutations.py --list "${@:2}" >/dev/null # Checks the arguments.
  if [[ ${packages[*]} != python3 ]]; then
    need "${packages[@]}"
    need_versions
    build simt cuflash_tests cuflash_attn
  fi
  exec python3 scripts/maintainer/mutations.py "${@:2}"
fi
if [[ ${1:-} == exercise ]]; then
  exec scripts/exercise.sh "${@:2}"
fi
if among --help "$@" || among -h "$@"; then
  usage
  exit 0
fi
if (($#)); then
  [[ $1 != -* ]] || usage_error "There is no option \"$1\".$(did_you_mean "$1" --help)"
  name=$(stage_named "$1" mutations exercise)
  (($# == 1)) || usage_error "scripts/test.sh takes one stage; see scripts/test.sh --help."
  asked_for=("$name")
fi

need "${PACKAGES_RUN[@]}" "${PACKAGES_SIMT[@]}" "${PACKAGES_TEST[@]}"
need_versions
jobs=$(nproc)

# logged FILE COMMAND...: the command, with its output in the file.
logged() { "${@:2}" >"$1" 2>&1; }

# The GoogleTest binary runs once: a process and a CUDA context for each test would cost minutes.
gpu_tests() {
  local log=build/release/gpu_tests.log status=0
  CUFLASH_REQUIRE_GPU=1 with_progress "GPU tests" \
    logged "$log" build/release/bin/cuflash_tests --gtest_brief=1 "$@" || status=$?
  cat "$log"
  return "$status"
}

# simt_shards STAGE OPTION...: the tests of one stage on the CPU simulator, or of all if it is empty,
# divided among one process per core: a process for each test would take as long to start as many run.
simt_shards() {
  local shard log=build/simt/shards failed=0
  local -a command
  command=(build/simt/bin/cuflash_tests --gtest_brief=1 "${@:2}" --gtest_filter="$1*")
  # GoogleTest accepts a filter that matches nothing.
  [[ -n $("${command[@]}" --gtest_list_tests) ]] ||
    die "There are no tests of ${1:-a stage}: is it in stages/stages.cpp and stages/CMakeLists.txt?"
  rm -rf "$log"
  mkdir -p "$log"
  # shellcheck disable=SC2016  # expanded by the shell of each process
  seq 0 $((jobs - 1)) | with_progress "Testing ${1:-the stages}" xargs -P "$jobs" -I{} \
    env GTEST_TOTAL_SHARDS="$jobs" GTEST_SHARD_INDEX={} sh -c 'exec "$@" >"$0" 2>&1' "$log/{}" \
    "${command[@]}" || failed=1
  for ((shard = 0; shard < jobs; ++shard)); do
    sed '/: Skipped$/,+1d' "$log/$shard" # without the tests skipped after a first failure
  done
  if ((failed)); then say "${1:-The stages}: FAILED"; else say "${1:-The stages}: every test passed"; fi
  return "$failed"
}

if (($#)); then
  build simt cuflash_tests
  if has_gpu && has_nvcc; then
    build release cuflash_tests
    gpu_tests --gtest_filter="$name*"
  fi
  # Each process stops at its first failure, because one finding is enough and thousands scroll by.
  simt_shards "$name" --gtest_fail_fast
  if ! has_nvcc; then
    say "There is no nvcc here: $name was not compiled with it."
  elif ! has_gpu; then
    configure release
    compile release "oldest_$name"
    say "nvcc compiles $name, for the oldest architecture that it is built for."
  fi
  exit
fi

build simt all
if has_nvcc; then
  build_cuda_backend
  if has_gpu; then
    gpu_tests
  else
    say "The CUDA backend compiles. There is no GPU here: its tests do not run."
  fi
else
  say "There is no nvcc here: the CUDA backend is not compiled."
fi
has_pytorch || say "There is no PyTorch here: the Python package's tests that need it do not run."
log=build/simt/ctest.log
failed=0
simt_shards "" || failed=1
ctest --preset simt -j "$jobs" --output-log "$log" --exclude-regex '^[0-9][0-9]_' || failed=1
grep 'tests passed' "$log" # the verdict again, after a long list of skipped tests
exit "$failed"
