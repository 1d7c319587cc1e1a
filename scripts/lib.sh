# shellcheck shell=bash
# What run.sh, test.sh, new_stage.sh and .ci/run share. Sourced, not run.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Debian packages, by purpose. Cut-down lists keep a first run short.
# shellcheck disable=SC2034  # used by the scripts that source this file
{
  PACKAGES_RUN=(g++ cmake ninja-build git libcli11-dev libfmt-dev nlohmann-json3-dev)
  PACKAGES_SIMT=(pkg-config libboost-context-dev libdw-dev)
  PACKAGES_TEST=(libgtest-dev python3 python3-numpy python3-pytest)
  PACKAGES_BENCH=(libbenchmark-dev)
  PACKAGES_DOCS=(cmake ninja-build git python3 doxygen graphviz doxygen-awesome-css libjs-mathjax)
  PACKAGES_STYLE=(clang-format shellcheck)
  PACKAGES_FIGURES=(python3-matplotlib)
}

say() { printf '%s\n' "$*" >&2; }

die() {
  say "$@"
  exit 1
}

# Does the compiler find this header?
has_header() {
  if command -v g++ >/dev/null; then
    printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" |
      g++ -E -x c++ - >/dev/null 2>&1
  else
    [[ -e /usr/include/$1 ]]
  fi
}

# Is what this Debian package brings here, from whatever source?
has_package() {
  case $1 in
    ninja-build) command -v ninja ;;
    graphviz) command -v dot ;;
    libboost-context-dev) has_header boost/context/fiber.hpp ;;
    libdw-dev) has_header elfutils/libdwfl.h ;;
    libcli11-dev) has_header CLI/CLI.hpp ;;
    libfmt-dev) has_header fmt/format.h ;;
    nlohmann-json3-dev) has_header nlohmann/json.hpp ;;
    libbenchmark-dev) has_header benchmark/benchmark.h ;;
    libgtest-dev) has_header gtest/gtest.h ;;
    python3-numpy | python3-pytest) # of one Python
      python3 -c 'import numpy, pytest' || /usr/bin/python3 -c 'import numpy, pytest'
      ;;
    python3-matplotlib) /usr/bin/python3 -c 'import matplotlib' ;;
    doxygen-awesome-css) [[ -e /usr/share/doxygen-awesome-css/doxygen-awesome.css ]] ;;
    libjs-mathjax) [[ -e /usr/share/javascript/mathjax/MathJax.js ]] ;;
    *) command -v "$1" ;;
  esac >/dev/null 2>&1
}

# need PACKAGE...: prints what is missing and installs it, or says what to install.
need() {
  local package log root=()
  local -a missing=()
  for package in "$@"; do
    has_package "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  say "Missing: ${missing[*]}"
  if ! command -v apt-get >/dev/null; then
    die "This machine has no apt. Install what these Debian packages contain, then run this again."
  fi
  if ((EUID != 0)); then
    root=(sudo -n)
    if ! sudo -n true 2>/dev/null; then
      die "To install them, run:  sudo apt-get install ${missing[*]}" $'\n'"Then run this again."
    fi
  fi

  say "Installing them with apt-get ..."
  log=$(mktemp)
  if ! "${root[@]}" apt-get update >"$log" 2>&1 ||
    ! "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    die "apt-get failed. Once it works, run:  apt-get install ${missing[*]}"
  fi
  rm -f "$log"
}

# at_least WANTED VERSION: is VERSION the same or newer?
at_least() { printf '%s\n%s\n' "$1" "$2" | sort -CV; }

# CMake 3.25 and g++ 12, or the sentence that says how to get them. Sets CXX.
need_versions() {
  local version candidate
  version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
  if ! at_least 3.25 "$version"; then
    say "CMake $version is too old: 3.25 or newer is needed. To get it, run:"
    say "  python3 -m pip install --user 'cmake>=3.25,<4'   (pip is in the package python3-pip)"
    # shellcheck disable=SC2016  # $HOME is for the reader's shell
    die '  export PATH="$HOME/.local/bin:$PATH"'
  fi

  if [[ -n ${CXX:-} ]]; then
    return 0 # The user's choice; CMake checks it.
  fi
  for candidate in g++ g++-12 g++-13 g++-14; do
    if command -v "$candidate" >/dev/null && at_least 12 "$("$candidate" -dumpversion)"; then
      export CXX=$candidate
      return 0
    fi
  done
  say "g++ $(g++ -dumpversion) is too old: 12 or newer is needed. To get it, run:"
  die "  sudo apt-get install g++-12   (Debian 11 has none: use Debian 12 or Ubuntu 22.04)"
}

# Is nvcc here? Also looks where NVIDIA's installer puts it.
has_nvcc() {
  if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
    export PATH="$PATH:/usr/local/cuda/bin"
  fi
  command -v nvcc >/dev/null
}

# Is an NVIDIA GPU here, with a working driver?
has_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }

# quietly COMMAND...: shows the command's output only when it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  ((status == 0)) || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

# build PRESET TARGET...: configures and builds; one line of progress on a terminal.
build() {
  local preset=$1
  shift
  quietly cmake --preset "$preset" || die "Configuring build/$preset failed; see above."
  if [[ -t 2 ]]; then
    NINJA_STATUS="Building build/$preset [%f/%t] " \
      cmake --build "build/$preset" --target "$@" >&2 || die "Building failed; see above."
    printf '\033[1A\033[2K' >&2 # ninja's last line
  else
    quietly cmake --build "build/$preset" --target "$@" || die "Building failed; see above."
  fi
}

# stage_named TEXT: the name of the stage whose number or name this is.
stage_named() {
  local directory
  for directory in stages/[0-9]*/; do
    directory=$(basename "$directory")
    if [[ $directory == "$1" || ${directory%%_*} == "$1" ]]; then
      printf '%s\n' "$directory"
      return 0
    fi
  done
  say "There is no stage '$1'. There are:$(cd stages && printf ' %s' [0-9]*)"
  return 1
}
