#!/usr/bin/env bash
# Prints a Python that has PyTorch, NumPy and pytest, for the Python package's tests:
#
#   cmake --preset simt -DCUFLASH_TORCH_PYTHON="$(scripts/maintainer/pytorch.sh)"
#
# It is in a virtual environment in the user's cache, one for each version of Python and of
# pytorch_requirements.txt. If that is missing or broken, the script makes it: 2.1 GB to download, 3.6 GB
# on the disk.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

(($# == 0)) || usage_error "scripts/maintainer/pytorch.sh takes no arguments."
list=scripts/maintainer/pytorch_requirements.txt
need python3
cache=${XDG_CACHE_HOME:-$HOME/.cache}/cuflash
made=$cache/$(sed -n 's/==/-/; /^torch-/p' $list)-$(
  /usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')-$(sha256sum $list | head -c 8)

works() { [[ -x $made/bin/python ]] && "$made/bin/python" -c 'import numpy, pytest, torch' 2>/dev/null; }

mkdir -p "$cache"
exec 8>"$cache/turn"
flock 8
if ! works; then
  need python3-venv python3-dev # torch.compile compiles against Python's headers.
  rm -rf "$made" "$cache"/new.*
  new=$(mktemp -d "$cache/new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  /usr/bin/python3 -m venv "$new"
  with_progress "Installing PyTorch in $made" "$new/bin/python" -m pip install --no-deps --no-cache-dir \
    --only-binary :all: -r $list || die "PyTorch cannot be installed; see above."
  mv -T "$new" "$made" # An interrupted installation is never used.
  works || die "PyTorch is in $made, but cannot be imported."
fi
printf '%s\n' "$made/bin/python"
