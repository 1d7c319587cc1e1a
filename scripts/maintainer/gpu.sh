#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, in one run: build, tests, compute-sanitizer, what bounds a
# kernel, the ladder's times, the stages beside PyTorch's attention, and Nsight Compute's counts, with which the CPU
# simulator's are compared. A step tried_NN_name times the variants of a stage, and tried those of all.
#   scripts/maintainer/gpu.sh OUT COMMIT [STEP...]
# leaves ceilings.json, ladder.json, ladder_f32.json, stages.json, peers.json, peers_bf16.json, peers_long.json,
# peers_f32.json, calls.json, train_char_gpt.json, timeline_NN_name.json, sectors.json,
# kernels.json, tried_NN_name.json and logs.tar.gz in the folder OUT. COMMIT names the sources. Without a STEP it takes all
# steps, in about 25 minutes.
set -euo pipefail
CDPATH='' cd "$(dirname "$0")/../.."
out=${1:?usage: scripts/maintainer/gpu.sh OUT COMMIT}
export CUFLASH_COMMIT=${2:?usage: scripts/maintainer/gpu.sh OUT COMMIT}
chosen=("${@:3}")
steps=(unit_tests device_tests gpu_tests consumers stage_tests watchdog delays sanitizers python calls training
  ceilings wgmma_registers ladder timeline bench_stages peers peers_bf16 peers_long peers_f32 ncu_sectors ncu_kernels tried)
for list in stages/*/variants.diff; do steps+=("tried_$(basename "$(dirname "$list")")"); done
for name in "${chosen[@]}"; do
  [[ " ${steps[*]} " == *" $name "* ]] || 
    { echo "cuflash: There is no step \"$name\". There are: ${steps[*]}." >&2 && exit 2; }
done
logs=$(mktemp -d)
results=build/results # a path that reads the same on every machine
status=0

step() { # step NAME SECONDS COMMAND...: runs within a time limit, logs, remembers a failure
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  if timeout "$limit" "$@" >"$logs/$name.log" 2>&1; then
    echo "$name: ok, $((SECONDS - begin)) s"
  else
    echo "$name: FAILED (exit $?), $((SECONDS - begin)) s"
    tail -n 25 "$logs/$name.log"
    status=1
  fi
}

wanted() { # wanted STEP: true if the user asked for it
  [ ${#chosen[@]} = 0 ] || [[ " ${chosen[*]} " == *" $1 "* ]]
}

finish() {
  cp "$results"/*.json "$out" 2>/dev/null || true # not every step leaves one
  tar -czf "$out/logs.tar.gz" -C "$logs" .
  rm -r "$logs"
}
trap finish EXIT
rm -rf "$results"
mkdir -p "$out" "$results"

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader
export CUFLASH_REQUIRE_GPU=1
step build 400 bash -c 'cmake --preset release -DCMAKE_COMPILE_WARNING_AS_ERROR=ON && cmake --build --preset release'
[ "$status" = 0 ] || exit 1
if wanted unit_tests; then step unit_tests 120 bash -c "build/release/bin/unit_tests && build/release/bin/choice_tests"; fi
if wanted device_tests; then
  step device_tests 60 bash -c "build/release/bin/device_tests && build/release/bin/device_sm90_tests &&
    build/release/bin/device_sm90a_tests"
fi
if wanted gpu_tests; then
  step gpu_tests 200 build/release/bin/gpu_tests
  mapfile -t cold < <(build/release/bin/gpu_tests --gtest_list_tests --gtest_filter='*Cold.*' |
    awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }')
  ((${#cold[@]})) || status=1
  for name in "${cold[@]}"; do # each in its own process
    step "${name//\//.}" 60 build/release/bin/gpu_tests --gtest_filter="$name"
  done
fi
if wanted consumers; then step consumers 120 ctest --preset release -R '^consumer'; fi
if wanted stage_tests; then step stage_tests 500 build/release/bin/cuflash_tests; fi
if wanted watchdog; then # The kernels that wait for barriers, in a build in which no wait can hang.
  step watchdog_build 300 bash -c 'cmake --preset release -B build/watchdog -DCUFLASH_WATCHDOG=ON &&
    cmake --build build/watchdog --target device_sm90_tests device_sm90a_tests cuflash_tests'
  step watchdog 200 bash -c "build/watchdog/bin/device_sm90_tests && build/watchdog/bin/device_sm90a_tests &&
    build/watchdog/bin/cuflash_tests --gtest_filter='*_random_problems'"
fi
if wanted delays; then # The same kernels with warps that are late at random; a wait that hangs is ended.
  step delays_build 300 bash -c 'cmake --preset release -B build/delays -DCUFLASH_DELAYS=ON -DCUFLASH_WATCHDOG=ON &&
    cmake --build build/delays --target cuflash_tests'
  step delays 200 build/delays/bin/cuflash_tests --gtest_filter='1?_*.*ward_*:-*_q4200000*:*_b35000*'
fi
if wanted sanitizers; then
  for tool in memcheck racecheck initcheck synccheck; do
    filter='*.sanitize_*'
    # racecheck has false alarms in 15 to 18 (stages/15_wgmma_backward/README.md).
    [ "$tool" != racecheck ] || filter+='-15_*:16_*:17_*:18_*'
    # initcheck does not see what TMA stores: 14's O, and a box that one thread stores from shared memory.
    [ "$tool" != initcheck ] || filter+='-14_*'
    step "$tool" 240 compute-sanitizer --tool "$tool" --error-exitcode 1 \
      build/release/bin/cuflash_tests --gtest_filter="$filter"
  done
fi
if wanted python; then
  step python_install 200 python3 -m pip install --no-build-isolation ./python
  step python_tests 400 python3 -m pytest python -q
  step python_ctypes 400 env CUFLASH_OPERATORS=ctypes python3 -m pytest -q \
    python/tests/test_{attention,errors,pytorch,window}.py
  step python_faults 300 env CUFLASH_LIBRARY="$PWD/build/release/libcuflash_attn.so" \
    python3 scripts/maintainer/mutations.py --tested python/
fi
# Python with the library and the package of these sources.
these=(env PYTHONPATH="$PWD/python" CUFLASH_LIBRARY="$PWD/build/release/libcuflash_attn.so" python3)
if wanted calls; then
  step calls 300 "${these[@]}" bench/calls/calls.py --out "$results/calls.json"
fi
if wanted training; then
  step training 400 "${these[@]}" examples/train_char_gpt.py --out "$results/train_char_gpt.json"
  step profile 60 "${these[@]}" examples/profile_attention.py
fi
if wanted ceilings; then step ceilings 60 build/release/bin/ceilings --json "$results/ceilings.json"; fi
if wanted wgmma_registers; then
  step wgmma_registers 120 scripts/maintainer/wgmma_registers.py build/release/{libcuflash_attn.so,bin/ceilings}
fi
if wanted ladder; then
  step ladder 200 build/release/bin/ladder --json "$results/ladder.json"
  step ladder_f32 200 build/release/bin/ladder --dtype f32 --json "$results/ladder_f32.json"
fi
if wanted timeline; then # In a build in which kernels record what their warps do.
  step timeline_build 300 bash -c 'cmake --preset release -B build/timeline -DCUFLASH_TIMELINE=ON -DCMAKE_COMPILE_WARNING_AS_ERROR=ON &&
    cmake --build build/timeline --target timeline device_sm90_tests'
  step timeline_tests 60 build/timeline/bin/device_sm90_tests --gtest_filter='Timeline.*'
  for stage in 11_wgmma 12_warp_specialized 13_ping_pong 14_persistent; do
    arguments=(--stage "$stage" --json "$logs/events_$stage.json")
    plain=()
    for problem in b4_h32_q4096k4096_d64_f16 b4_h16_q4096k4096_d128_f16; do
      plain+=("$logs/$stage.$problem.json")
      step "plain_$stage.$problem" 60 build/release/bin/ladder --stage "$stage" --pass forward \
        --shape "$problem" --json "${plain[-1]}"
      arguments+=(--shape "$problem")
    done
    step "timeline_$stage" 120 build/timeline/bin/timeline "${arguments[@]}"
    step "spans_$stage" 60 bench/timeline/spans.py "$logs/events_$stage.json" "$results/timeline_$stage.json" \
      "${plain[@]}"
  done
fi
# The steps below leave out the stages that keep S: they would take longer than all others together.
facts=$(mktemp)
build/release/bin/ladder --list --json "$facts"
read -r linear hopper < <(python3 - "$facts" <<'END'
import json, sys
passes = json.load(open(sys.argv[1]))
linear = {p["stage"] for p in passes} - {p["stage"] for p in passes if p["keeps_scores"]}
print(*[",".join(sorted(stages)) for stages in
        (linear, {p["stage"] for p in passes if p["arch"].startswith("sm_90")})])
END
)
rm "$facts"
if wanted bench_stages; then
  step bench_stages 300 build/release/bin/bench_stages \
    --benchmark_filter="^(${linear//,/|})\\..*_f16" --benchmark_out="$results/stages.json"
fi
if ! python3 -c 'import torch' 2>/dev/null; then
  if wanted peers || wanted peers_bf16 || wanted peers_long || wanted peers_f32; then
    echo "peers: skipped, python3 has no PyTorch"
    [ ${#chosen[@]} = 0 ] || status=1
  fi
else
  if wanted peers; then
    step peers 600 python3 bench/peers/peers.py --out "$results/peers.json" --stages "$linear"
    step peers_head_dims 200 python3 bench/peers/peers.py --out "$results/peers.json" --stages "09_async_copy,$hopper" \
      --head-dim 32,96,256 --seq 2048,8192 --impl fa2,fa3,fa4,cudnn,cuflash
  fi
  if wanted peers_bf16; then
    step peers_bf16 400 python3 bench/peers/peers.py --out "$results/peers_bf16.json" --stages "$hopper" \
      --dtype bf16 --impl fa2,fa3,fa4,cudnn,cuflash
  fi
  if wanted peers_long; then
    step peers_long 200 python3 bench/peers/peers.py --out "$results/peers_long.json" --stages "$hopper" \
      --pass forward --head-dim 128 --seq 65536,262144 --causal yes --impl fa3,fa4,cudnn,cuflash
  fi
  if wanted peers_f32; then
    step peers_f32 200 python3 bench/peers/peers.py --out "$results/peers_f32.json" --stages "$linear" \
      --dtype f32 --impl efficient,math,cuflash
  fi
fi
for counts in sectors kernels; do # each is a process of Nsight Compute or two
  if wanted "ncu_$counts"; then
    step "ncu_$counts" 240 python3 scripts/maintainer/chip_counts.py build/release/bin "$results" "$CUFLASH_COMMIT" "$counts"
  fi
done
tried=() # the stages whose variants are wanted
for name in "${steps[@]}"; do
  [[ $name != tried_* ]] || { ! wanted tried && ! wanted "$name"; } || tried+=("${name#tried_}")
done
if ((${#tried[@]})); then
  step tried $((400 * ${#tried[@]})) python3 scripts/maintainer/variants.py --out "$results" "${tried[@]}"
fi
for log in "$logs"/*.log; do
  echo "== $(basename "$log" .log)"
  grep -E '^\[  (PASSED|FAILED|SKIPPED)|SUMMARY' "$log" | tail -n 3 || true
done
cat "$logs"/ceilings.log "$logs"/ladder*.log "$logs"/timeline_[0-9]*.log "$logs"/peers*.log "$logs"/{calls,tried}.log 2>/dev/null || true
exit $status
