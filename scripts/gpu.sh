#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, in one run: build, tests, compute-sanitizer, the ladder's
# times, the stages beside PyTorch's attention, and Nsight Compute's count of what the CPU machine
# counts.
#   scripts/gpu.sh OUT COMMIT
# leaves ladder.json, stages.json, peers.json, sectors.json, kernels.json and logs.tar.gz in the folder
# OUT. COMMIT names the sources.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: scripts/gpu.sh OUT COMMIT}
export CUFLASH_COMMIT=${2:?usage: scripts/gpu.sh OUT COMMIT}
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

finish() {
  cp "$results"/*.json "$out" || true
  tar -czf "$out/logs.tar.gz" -C "$logs" .
  rm -r "$logs"
}
trap finish EXIT
rm -rf "$results"
mkdir -p "$out" "$results"

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader
export CUFLASH_REQUIRE_GPU=1
step build 400 bash -c 'cmake --preset release && cmake --build --preset release'
[ "$status" = 0 ] || exit 1
step unit_tests 120 build/release/bin/unit_tests
step stage_tests 400 build/release/bin/cuflash_tests
for tool in memcheck racecheck initcheck synccheck; do
  step "$tool" 240 compute-sanitizer --tool "$tool" --error-exitcode 1 \
    build/release/bin/cuflash_tests --gtest_filter='*.sanitize_*'
done
step ladder 200 build/release/bin/ladder --json "$results/ladder.json"
step bench_stages 300 build/release/bin/bench_stages --benchmark_filter='d(64|128)_f16' \
  --benchmark_out="$results/stages.json"
if python3 -c 'import torch' 2>/dev/null; then
  step peers 480 python3 bench/peers.py --out "$results/peers.json"
else
  echo "peers: skipped, python3 has no PyTorch"
fi
if command -v ncu >/dev/null; then
  step ncu 300 python3 bench/chip_counts.py build/release/bin "$results" "$CUFLASH_COMMIT"
fi
for log in "$logs"/*.log; do
  echo "== $(basename "$log" .log)"
  grep -E '^\[  (PASSED|FAILED|SKIPPED)|SUMMARY' "$log" | tail -n 3 || true
done
cat "$logs/ladder.log"
exit $status
