#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, in steps below nine minutes: the tests, compute-sanitizer, and each
# measurement of which docs/results/nvidia-* has the file.
#   scripts/maintainer/gpu.sh --list
#   scripts/maintainer/gpu.sh OUT COMMIT [STEP...]
# The first shows the steps, their times and their files. The second builds, runs all steps, or those that
# are named or begin so (tried, peers), and leaves the files in the folder OUT. COMMIT names the sources.
# After an interruption or a failure, the same command goes on: a step is done if its log is in OUT/logs.
set -euo pipefail
# shellcheck source=scripts/maintainer/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

# ---- The steps' functions ------------------------------------------------------------------------

bin=build/release/bin
results=build/results # a link to OUT: a path that reads the same on every machine
events=build/events
export bin results events

build_all() {
  cmake --preset release -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
  cmake --build --preset release
  $bin/ladder --list --json build/facts.json
}

gpu_tests() {
  $bin/gpu_tests
  local name
  local -a cold
  mapfile -t cold < <($bin/gpu_tests --gtest_list_tests --gtest_filter='*Cold.*' |
    awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }')
  ((${#cold[@]}))
  for name in "${cold[@]}"; do # each in its own process
    timeout 60 $bin/gpu_tests --gtest_filter="$name"
  done
}

watchdog() { # The kernels that wait for barriers, in a build in which no wait can hang.
  cmake --preset release -B build/watchdog -DCUFLASH_WATCHDOG=ON
  cmake --build build/watchdog --target device_sm90_tests device_sm90a_tests cuflash_tests
  build/watchdog/bin/device_sm90_tests
  build/watchdog/bin/device_sm90a_tests
  build/watchdog/bin/cuflash_tests --gtest_filter='*_random_problems'
}

delays() { # The same kernels with warps that are late at random; a wait that hangs is ended.
  cmake --preset release -B build/delays -DCUFLASH_DELAYS=ON -DCUFLASH_WATCHDOG=ON
  cmake --build build/delays --target cuflash_tests
  build/delays/bin/cuflash_tests --gtest_filter='1?_*.*ward_*:-*_q4200000*:*_b35000*'
}

# sanitize TOOL [FILTER]
sanitize() {
  compute-sanitizer --tool "$1" --error-exitcode 1 $bin/cuflash_tests --gtest_filter="*.sanitize_*${2:-}"
}

install_python() { python3 -m pip install --no-build-isolation ./python; }

# Python with the library and the package of these sources.
these_sources() { PYTHONPATH=$PWD/python CUFLASH_LIBRARY=$PWD/build/release/libcuflash_attn.so python3 "$@"; }

build_timeline() { # The kernels record what their warps do.
  cmake --preset release -B build/timeline -DCUFLASH_TIMELINE=ON -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
  cmake --build build/timeline --target timeline device_sm90_tests
}

timeline() { # timeline STAGE
  local problem
  local -a plain=() shapes=()
  build_timeline
  mkdir -p $events
  for problem in b4_h32_q4096k4096_d64_f16 b4_h16_q4096k4096_d128_f16; do
    plain+=("$events/$1.$problem.json")
    $bin/ladder --stage "$1" --pass forward --shape $problem --json "${plain[-1]}"
    shapes+=(--shape "$problem")
  done
  build/timeline/bin/timeline --stage "$1" --json "$events/$1.json" "${shapes[@]}"
  python3 bench/timeline/spans.py "$events/$1.json" "$results/timeline_$1.json" "${plain[@]}"
}

# stages_that KIND: the stages that keep no S (linear), as the others would take longer than all of these together,
# or that need compute capability 9.0 (hopper), as a list for peers.py.
stages_that() {
  python3 - "$1" <<'END_OF_PYTHON'
import json, sys
passes = json.load(open("build/facts.json"))
kinds = {"linear": {p["stage"] for p in passes} - {p["stage"] for p in passes if p["keeps_scores"]},
         "hopper": {p["stage"] for p in passes if p["arch"].startswith("sm_90")}}
print(",".join(sorted(kinds[sys.argv[1]])))
END_OF_PYTHON
}

peers() { # peers FILE STAGES OPTION...
  python3 bench/peers/peers.py --out "$results/$1" --stages "$2" "${@:3}"
}

# ---- The steps: about how many seconds on a machine with an H200 and 16 cores, and their files --------

step unit_tests 10 "" "$bin/unit_tests; $bin/choice_tests"
step device_tests 10 "" "$bin/device_tests; $bin/device_sm90_tests; $bin/device_sm90a_tests"
step gpu_tests 60 "" gpu_tests
step consumers 60 "" "ctest --preset release -R '^consumer'"
step stage_tests 200 "" $bin/cuflash_tests
step watchdog 200 "" watchdog
step delays 200 "" delays
step sanitizers_memcheck 60 "" "sanitize memcheck"
# It has false alarms in 15 to 18 (stages/15_wgmma_backward/README.md).
step sanitizers_racecheck 60 "" "sanitize racecheck '-15_*:16_*:17_*:18_*'"
# It does not see what TMA stores: 14's O, and a box that one thread stores from shared memory.
step sanitizers_initcheck 60 "" "sanitize initcheck '-14_*'"
step sanitizers_synccheck 60 "" "sanitize synccheck"
step python_tests 200 "" "install_python; python3 -m pytest python -q"
step python_ctypes 150 "" "install_python; CUFLASH_OPERATORS=ctypes python3 -m pytest -q \
  python/tests/test_{attention,errors,pytorch,window}.py"
step python_faults 150 "" "install_python; CUFLASH_LIBRARY=\$PWD/build/release/libcuflash_attn.so \
  python3 scripts/maintainer/mutations.py --tested python/"
step wgmma_registers 30 "" "python3 scripts/maintainer/wgmma_registers.py build/release/libcuflash_attn.so $bin/ceilings"
step bench_stages 200 "" "$bin/bench_stages --benchmark_filter=\"^(\$(stages_that linear | tr , '|'))/.*/f16/d64/\""

step calls 150 calls.json "these_sources bench/calls/calls.py --out $results/calls.json"
step training 30 train_char_gpt.json "these_sources examples/train_char_gpt.py --out $results/train_char_gpt.json
  these_sources examples/profile_attention.py"
step ceilings 10 ceilings.json "$bin/ceilings --json $results/ceilings.json"
step ladder 30 ladder.json "$bin/ladder --json $results/ladder.json"
step ladder_f32 15 ladder_f32.json "$bin/ladder --dtype f32 --json $results/ladder_f32.json"
step ladder_bf16 30 ladder_bf16.json "$bin/ladder --dtype bf16 --json $results/ladder_bf16.json"
step timeline_tests 60 "" "build_timeline; build/timeline/bin/device_sm90_tests --gtest_filter='Timeline.*'"
for stage in 11_wgmma 12_warp_specialized 13_ping_pong 14_persistent; do
  step timeline_$stage 30 timeline_$stage.json "timeline $stage"
done
step peers_forward 300 peers.json "peers peers.json \$(stages_that linear) --rounds 3 --pass forward"
step peers_backward 300 peers.json "peers peers.json \$(stages_that linear) --rounds 3 --pass backward"
step peers_head_dims 200 peers.json "peers peers.json 09_async_copy,\$(stages_that hopper) --rounds 3 \
  --head-dim 32,96,256 --seq 2048,8192 --impl fa2,fa3,fa4,cudnn,cuflash"
step peers_bf16 250 peers_bf16.json "peers peers_bf16.json \$(stages_that hopper) --rounds 3 --dtype bf16 \
  --impl fa2,fa3,fa4,cudnn,cuflash"
step peers_long 120 peers_long.json "peers peers_long.json \$(stages_that hopper) --rounds 3 --pass forward \
  --head-dim 128 --seq 65536,262144 --causal yes --impl fa3,fa4,cudnn,cuflash"
step peers_f32 120 peers_f32.json "peers peers_f32.json \$(stages_that linear) --dtype f32 --impl efficient,math,cuflash"
step standard 60 standard.json "python3 bench/peers/standard.py --out $results/standard.json"
for counts in sectors passes kernels; do
  step ncu_$counts 60 $counts.json "python3 scripts/maintainer/chip_counts.py $bin $results \$CUFLASH_COMMIT $counts"
done
for list in stages/*/variants.diff; do
  stage=$(basename "$(dirname "$list")")
  step "tried_$stage" 150 "tried_$stage.json" "python3 scripts/maintainer/variants.py --out $results $stage"
done

# ---- The run ---------------------------------------------------------------------------------------

if [[ ${1:-} == --list ]]; then
  list_steps
  exit
fi
[[ $# -ge 2 && $1 != -* ]] || usage_error "usage: scripts/maintainer/gpu.sh --list, or OUT COMMIT [STEP...]"
out=$(from_root "$1")
export CUFLASH_COMMIT=$2 CUFLASH_REQUIRE_GPU=1
check_steps "${@:3}"
mkdir -p "$out"
[[ $(cat "$out/commit" 2>/dev/null || printf '%s' "$2") == "$2" ]] || die "$1 has results of $(cat "$out/commit")."
printf '%s' "$2" >"$out/commit"

mkdir -p build
rm -rf "$results"
ln -s "$(realpath "$out")" "$results"

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader
build_all >build/build.log 2>&1 || { tail -n 25 build/build.log && die "The build failed."; }
run_steps 540 "$out/logs" "${@:3}"
