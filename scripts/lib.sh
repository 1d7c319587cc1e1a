# shellcheck shell=bash
# The functions that the scripts share. Sourced, not run.
[ -n "${BASH_VERSION:-}" ] || { echo "cuflash: The scripts need bash: bash $0" >&2 && exit 2; }
set -euo pipefail

called_from=$PWD # A file that the command line names is relative to this folder.
CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Debian packages, by purpose. Cut-down lists keep a first run short.
# shellcheck disable=SC2034  # used by the scripts that source this file
{
  PACKAGES_RUN=(g++ cmake ninja-build git libcli11-dev libfmt-dev nlohmann-json3-dev)
  PACKAGES_SIMT=(pkg-config libboost-context-dev libdw-dev zlib1g-dev)
  PACKAGES_TEST=(libgtest-dev python3 python3-numpy python3-pytest)
  PACKAGES_BENCH=(libbenchmark-dev)
  PACKAGES_DOCS=(cmake ninja-build git python3 python3-sphinx python3-myst-parser furo libjs-katex
    doxygen doxygen-awesome-css graphviz)
  PACKAGES_BROWSER=(chromium chromium-driver python3-selenium)
  PACKAGES_STYLE=(clang-format shellcheck)
  PACKAGES_FIGURES=(python3-matplotlib)
}

say() { printf '%s\n' "$*" >&2; }

# Complaints begin with the same word in every script and program.
complain() { say "cuflash: $*"; }

# Exit statuses: 1 if something fails, 2 if the command line is wrong.
die() {
  complain "$@"
  exit 1
}

usage_error() {
  complain "$@"
  exit 2
}

# from_root FILE: the path of the same file from the repository's root.
from_root() {
  if [[ $1 == /* || $called_from == "$PWD" ]]; then
    printf '%s\n' "$1"
  else
    printf '%s\n' "$called_from/$1"
  fi
}

# Ctrl-C: stops background jobs and wipes a half-drawn line.
interrupted() {
  local job
  trap '' INT
  for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
  wait
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  exit 130
}
trap interrupted INT

# distance A B: the number of letters to insert, drop or exchange to turn A into B. Sets `distance`.
distance() {
  local a=$1 b=$2 i j above cost
  local -a row=()
  for ((j = 0; j <= ${#b}; ++j)); do row[j]=$j; done
  for ((i = 1; i <= ${#a}; ++i)); do
    above=${row[0]}
    row[0]=$i
    for ((j = 1; j <= ${#b}; ++j)); do
      cost=$above
      above=${row[j]}
      [[ ${a:i-1:1} == "${b:j-1:1}" ]] || ((++cost))
      ((above + 1 >= cost)) || cost=$((above + 1))
      ((row[j - 1] + 1 >= cost)) || cost=$((row[j - 1] + 1))
      row[j]=$cost
    done
  done
  distance=${row[${#b}]}
}

# among TEXT WORD...: true if TEXT is one of the words.
among() {
  local text=$1 word
  for word in "${@:2}"; do [[ $text != "$word" ]] || return 0; done
  return 1
}

# closest TEXT CANDIDATE...: prints the candidate that contains TEXT, or else one that resembles it;
# fails if there is none.
closest() {
  local text=$1 candidate best='' distance least=$((${#1} / 3 + 1))
  shift
  for candidate in "$@"; do
    if ((${#text} > 2)) && [[ $candidate == *"$text"* ]]; then
      best=$candidate
      break
    fi
    distance "$text" "$candidate"
    if ((distance <= least && distance < ${#text})) && [[ -z $best || $distance -lt $least ]]; then
      best=$candidate
      least=$distance
    fi
  done
  [[ -n $best ]] && printf '%s\n' "$best"
}

# did_you_mean TEXT CANDIDATE...: prints the question that ends a complaint; nothing if no candidate
# is close.
did_you_mean() {
  local candidate
  ! candidate=$(closest "$@") || printf ' Did you mean "%s"?' "$candidate"
}

# True if the compiler finds this header.
has_header() {
  if command -v g++ >/dev/null; then
    printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" |
      g++ -E -x c++ - >/dev/null 2>&1
  else
    [[ -e /usr/include/$1 ]]
  fi
}

# True if the contents of this Debian package are installed, from any source.
has_package() {
  case $1 in
    ninja-build) command -v ninja ;;
    graphviz) command -v neato ;;
    libboost-context-dev) has_header boost/context/fiber.hpp ;;
    libdw-dev) has_header elfutils/libdwfl.h ;;
    zlib1g-dev) has_header zlib.h ;;
    libcli11-dev) has_header CLI/CLI.hpp ;;
    libfmt-dev) has_header fmt/format.h ;;
    nlohmann-json3-dev) has_header nlohmann/json.hpp ;;
    libbenchmark-dev) has_header benchmark/benchmark.h ;;
    libgtest-dev) has_header gtest/gtest.h ;;
    python3-numpy | python3-pytest) # of one Python
      python3 -c 'import numpy, pytest' || /usr/bin/python3 -c 'import numpy, pytest'
      ;;
    python3-venv) /usr/bin/python3 -c 'import ensurepip' ;;
    python3-dev) # for the same Python
      [[ -e $(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ]]
      ;;
    python3-matplotlib) /usr/bin/python3 -c 'import matplotlib' ;;
    python3-sphinx) /usr/bin/python3 -c 'import sphinx' ;;
    python3-myst-parser) /usr/bin/python3 -c 'import myst_parser' ;;
    furo) /usr/bin/python3 -c 'import furo' && [[ -e /usr/share/javascript/normalize.css/normalize.css ]] ;;
    libjs-katex) [[ -e /usr/share/javascript/katex/katex.min.js ]] ;;
    chromium-driver) command -v chromedriver ;;
    python3-selenium) /usr/bin/python3 -c 'import selenium' ;;
    doxygen-awesome-css) [[ -e /usr/share/doxygen-awesome-css/doxygen-awesome.css ]] ;;
    *) command -v "$1" ;;
  esac >/dev/null 2>&1
}

# True if PyTorch is installed for a Python that the package's tests can use.
has_pytorch() {
  grep -qs '^CUFLASH_TORCH_PYTHON:.*=.' build/simt/CMakeCache.txt ||
    python3 -c 'import pytest, numpy, torch' 2>/dev/null ||
    /usr/bin/python3 -c 'import pytest, numpy, torch' 2>/dev/null
}

# need PACKAGE...: prints the missing packages and installs them, or prints how to install them.
need() {
  local package root=()
  local -a missing=()
  for package in "$@"; do
    has_package "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  say "Missing: ${missing[*]}"
  if ! command -v apt-get >/dev/null; then
    die "This machine has no apt. Install the contents of these Debian packages, then run this again."
  fi
  ((EUID == 0)) || root=(sudo -n)
  if [[ -n ${CUFLASH_NO_INSTALL:-} ]] || ! "${root[@]}" true 2>/dev/null; then
    die "To install them, run:  sudo apt-get install ${missing[*]}" $'\n'"Then run this again."
  fi

  say "Installing them with apt-get; CUFLASH_NO_INSTALL=1 prevents this ..."
  if ! with_progress "Updating the package lists" "${root[@]}" apt-get update ||
    ! with_progress "Installing them" "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends "${missing[@]}"; then
    die "apt-get failed. Once it works, run:  apt-get install ${missing[*]}"
  fi
}

# at_least WANTED VERSION: true if VERSION is the same or newer.
at_least() { printf '%s\n%s\n' "$1" "$2" | sort -CV; }

# Exits with instructions to get a newer CMake if this one is older than 3.25.
need_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
  if ! at_least 3.25 "$version"; then
    complain "CMake $version is too old: 3.25 or newer is needed. To get it, run:"
    say "  python3 -m pip install --user 'cmake>=3.25,<4'   (pip is in the package python3-pip)"
    # shellcheck disable=SC2016  # $HOME is for the reader's shell
    say '  export PATH="$HOME/.local/bin:$PATH"'
    exit 1
  fi
}

# Checks CMake and g++; exits with instructions if one is too old. Sets CXX.
need_versions() {
  local candidate
  need_cmake

  if [[ -n ${CXX:-} ]]; then
    return 0 # The user's choice; CMake checks it.
  fi
  for candidate in g++ g++-12 g++-13 g++-14; do
    if command -v "$candidate" >/dev/null && at_least 12 "$("$candidate" -dumpversion)"; then
      export CXX=$candidate
      return 0
    fi
  done
  complain "g++ $(g++ -dumpversion) is too old: 12 or newer is needed. To get it, run:"
  say "  sudo apt-get install g++-12   (Debian 11 has none: use Debian 12 or Ubuntu 22.04)"
  exit 1
}

# True if nvcc is here. Also looks where NVIDIA's installer puts it.
has_nvcc() {
  if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
    export PATH="$PATH:/usr/local/cuda/bin"
  fi
  command -v nvcc >/dev/null
}

# True if an NVIDIA GPU is here, with a working driver.
has_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }

# report_progress WORK: passes its input on, except lines such as "[3/50] ...", and reports on
# stderr how far WORK is: on a terminal in one line, which is wiped at the end; elsewhere in a line
# every ten seconds. Silent if WORK is empty.
report_progress() {
  local work=$1 line='' part steps='' text drawn='' terminal='' begin=$SECONDS last=$SECONDS
  [[ ! -t 2 ]] || terminal=yes
  while true; do
    if IFS= read -rt 1 part; then
      line+=$part
      if [[ ! $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
        [[ -z $drawn ]] || printf '\r\033[K' >&2
        drawn=
        printf '%s\n' "$line"
      elif ((BASH_REMATCH[1] > 0)); then # 0: ninja checks for new files
        [[ -n $steps ]] || last=$((SECONDS - 10))
        steps=": ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}"
      fi
      line=
    elif (($? > 128)); then # a second has passed
      line+=$part
    else
      break
    fi
    text="$work$steps ($((SECONDS - begin)) s)"
    if [[ -z $work || $text == "$drawn" ]]; then
      continue
    elif [[ -n $terminal && (-n $steps || $SECONDS -gt $begin) ]]; then
      printf '\r\033[K%s' "$text" >&2
      drawn=$text
    elif [[ -z $terminal && $((SECONDS - last)) -ge 10 ]]; then
      say "$text"
      last=$SECONDS
    fi
  done
  [[ -z $drawn ]] || printf '\r\033[K' >&2
  printf '%s' "$line$part"
}

# with_progress WORK COMMAND...: runs the command, reports its progress, and shows its output only
# if it fails.
with_progress() {
  local work=$1 file written shown status=0
  shift
  file=$(mktemp 2>/dev/null) ||
    die "Temporary files cannot be made in ${TMPDIR:-/tmp}; set TMPDIR to another folder."
  exec {written}>"$file"
  exec {shown}<"$file"
  rm "$file" # The two descriptors keep it for as long as it is needed.
  "$@" 2>&1 | report_progress "$work" >&"$written" || status=$?
  ((status == 0)) || cat <&"$shown" >&2
  exec {written}>&- {shown}<&-
  return "$status"
}

quietly() { with_progress "" "$@"; }

# take_turn: waits until no other script is running in this checkout, and keeps others waiting until
# this process ends. The processes that it starts share its turn.
take_turn() {
  [[ ${CUFLASH_TURN:-} != "$PWD" ]] || return 0
  if ! mkdir -p build || [[ ! -w build ]]; then
    die "This checkout cannot be written to. Copy it to a folder of your own, and run the script there."
  fi
  exec 9>build/turn
  if ! flock --nonblock 9; then
    say "Another script is running in this checkout: waiting until it ends."
    flock 9
  fi
  export CUFLASH_TURN=$PWD
}

# A compiler's server that keeps running must not hold the turn: descriptor 9 is closed for it.

# configure PRESET [OPTION...]: makes the build folder anew if its cache is damaged or was made for
# another checkout, which this one was copied from, or before this one was moved.
configure() {
  local cache=build/$1/CMakeCache.txt
  [[ $PWD != *[\;\"\#\\]* ]] || die "CMake cannot build in a folder with ; \" # or \\ in its path: $PWD"
  if [[ -e $cache ]] && { grep -aqvE '^$|^#|^//|^[^=]+:[A-Z]+=' "$cache" ||
    [[ ! $(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache") -ef . ]]; }; then
    say "build/$1 was made in another folder, or is damaged: making it anew."
    rm -rf "build/$1"
  fi
  with_progress "Configuring build/$1" cmake --preset "$@" 9>&- ||
    die "Configuring build/$1 failed; see above."
}

# compile PRESET TARGET...
compile() {
  NINJA_STATUS='[%f/%t] ' with_progress "Building build/$1" \
    cmake --build "build/$1" --target "${@:2}" 9>&- || die "Building failed; see above."
}

# The stages that the command line names.
asked_for=()

# leave_out_broken PRESET: compiles the stages that only this checkout has. One that does not compile
# is left out of the build; if the command line names it, the script ends.
leave_out_broken() {
  local stage log setting=CUFLASH_LEFT_OUT
  local -a stages broken=()
  mapfile -t stages < <(compgen -G 'stages/9?_*/stage.cu' | cut -d/ -f2)
  if ((${#stages[@]})) && ! NINJA_STATUS='[%f/%t] ' cmake --build "build/$1" --target "${stages[@]}" \
    -- -k 0 2>&1 9>&- | report_progress "Building build/$1" >/dev/null; then
    for stage in "${stages[@]}"; do
      log=$(cmake --build "build/$1" --target "$stage" 2>&1 9>&-) && continue
      if among "$stage" "${asked_for[@]}"; then
        say "$log"
        die "$stage does not compile; see above."
      fi
      broken+=("$stage")
      say "$stage does not compile and is left out; scripts/test.sh ${stage%%_*} shows why."
    done
  fi
  setting+=:STRING=$(IFS=';' && printf '%s' "${broken[*]}")
  grep -qsxF "$setting" "build/$1/CMakeCache.txt" || configure "$1" "-D$setting"
}

# build PRESET TARGET...: takes its turn, configures, and builds with every stage that compiles.
build() {
  take_turn
  configure "$1"
  leave_out_broken "$1"
  compile "$@"
}

# build_cuda_backend: builds all of build/release. In a sample (CUFLASH_SAMPLE=N/3) without a GPU it only
# compiles the objects that scripts/maintainer/record.py names, and links nothing.
build_cuda_backend() {
  local targets=all
  if [[ ${CUFLASH_SAMPLE:-0/1} != 0/1 ]] && ! has_gpu; then
    take_turn
    configure release
    targets=$(scripts/maintainer/record.py objects)
  fi
  mapfile -t targets <<<"$targets"
  build release "${targets[@]}"
}

# stage_named TEXT [WORD...]: the name of the stage with this name, number or word: 05_wmma, 05, 5,
# wmma. If there is none, the complaint may also suggest one of the WORDs.
stage_named() {
  local name text=${1%/} suggestion=''
  local -a names
  names=(stages/[0-9]*/)
  names=("${names[@]#stages/}")
  names=("${names[@]%/}")
  text=${text#stages/}
  [[ ! $text =~ ^[0-9](_|$) ]] || text=0$text
  for name in "${names[@]}"; do
    if [[ $text == "$name" || $text == "${name%%_*}" || $text == "${name#*_}" ]]; then
      printf '%s\n' "$name"
      return 0
    fi
  done
  if name=$(closest "$text" "${@:2}" "${names[@]}" "${names[@]#*_}"); then
    [[ " ${*:2} " == *" $name "* ]] || name=$(stage_named "$name")
    suggestion=" Did you mean \"$name\"?"
  fi
  usage_error "There is no stage \"$1\".${suggestion:- There are: ${names[*]}.}"
}
