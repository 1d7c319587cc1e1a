#!/usr/bin/env bash
# Builds the ladder and runs it, on your GPU or on none.
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

usage() {
  cat <<'END'
Usage: scripts/run.sh [OPTION...]

Runs every stage on a real input, checks each against the reference, and prints one table.
Installs what is missing through apt and builds only what it needs. If there is an NVIDIA GPU
and nvcc, it uses them; otherwise the kernels run on the CPU simulator (common/simt).

Which stages (at most one of these)
  --stage STAGE       one stage: 05_wmma, or 05, 5, wmma
  --against REV       with --stage: compares it with its version in a git revision. On the CPU
                      simulator the counts that differ, on a GPU both times, in alternating calls
  --diff A B          the lines that change from stage A to stage B, then --compare
  --compare A B       the counts and times of stages A and B, and their ratios; of one stage, named
                      twice, beside those in docs/results
  --annotate STAGE    the stage's source, each line with its memory traffic (CPU simulator)
  --map STAGE         the stage's shared memory (CPU simulator)
  --play STAGE [STAGE]
                      one block's run on a small problem, step by step, as a page for a browser:
                      build/play/STAGE.html; with --text or --json instead as text or in FILE;
                      of two stages side by side (CPU simulator)
  --report            a page for a browser with all stages' results on this machine beside the
                      committed ones: build/report.html; the results alone: build/report.json
  --list              list the stages and exit

On which problem
  --shape SHAPE       random inputs of this shape, b2_h4x1_q77k131_d64: batch, query heads x KV
                      heads, lengths of Q and K, head_dim; with a window
                      b1_h2_q77k131_d64_left16_right3; or the name of any test
  --timed SHAPE       on a GPU: time a problem of this shape, whichever is verified
  --input DIR         the folder of q.npy, k.npy and v.npy; default: bench/data
  --dtype TYPE        the element type, such as f32 or bf16; default: f16
  --causal            causal mask: a query attends to no later key
  --pass PASS         forward, backward or both; default: both

How
  --text              with --play: print the run, one line per step
  --break             with --play of one stage: also runs with known faults, such as a removed
                      barrier; the kernel is compiled once per fault
  --schedule ORDER    the order of threads: inorder, reversed, random:SEED, or lagging:SEED, in
                      which the last lane of a warp runs as late as it can (CPU simulator)
  --block X,Y,Z       show only this block's findings (CPU simulator)
  --json FILE         also write the results to this file

An option marked (CPU simulator) runs there even if there is a GPU. A table is as wide as the
terminal; the variable COLUMNS sets another width, and NO_COLOR turns colors off.

Exit status: 0 if everything that ran is correct; 1 if something is wrong or nothing ran, or if
--against finds a count that differs, or a time that is longer by more than 1 % and twice the spread;
2 if the command line is wrong. An unknown option or stage is refused before anything is built; the
built ladder refuses a wrong value, and a problem that the library does not support, such as one with
head_dim 33.

For example:
  scripts/run.sh --stage 01 --pass backward --causal
  scripts/run.sh --shape b2_h4x1_q77k131_d64 --dtype bf16
  scripts/run.sh --annotate 02
  scripts/run.sh --play 03 --break
  scripts/run.sh --diff 01 02
  scripts/run.sh --stage 14 --against HEAD
  scripts/run.sh --report
END
}

if among --help "$@" || among -h "$@"; then
  usage
  exit 0
fi

# renamed A B FILE: A's FILE, if there is one, with B's name and namespace.
renamed() {
  [[ ! -e stages/$1/$3 ]] ||
    sed "s/\b$1\b/$2/g; s/\bcuflash::${1#*_}\b/cuflash::${2#*_}/g" "stages/$1/$3"
}

# changes A B FILE [OPTION...]: the lines that differ, apart from the names. A file that is not there
# is empty.
changes() { diff -N -I '\.follows = "' "${@:4}" <(renamed "${@:1:3}") "stages/$2/$3" || true; }

# diff_file A B FILE: shows how FILE changes from stage A to stage B. A removed file is not shown, nor
# is a new backward pass.
diff_file() {
  local file lines color=auto old=stages/$1/$3 new=stages/$2/$3
  [[ -z ${NO_COLOR+set} ]] || color=never
  for file in "$old" "$new"; do
    [[ -e $file ]] || printf 'There is no %s.\n' "$file"
  done
  [[ ! -e $new || (! -e $old && $3 == kernel_bwd.cuh) ]] ||
    changes "$@" "--color=$color" -u --label "$old" --label "$new"
  lines=$(changes "$@")
  printf '\n%s: %s lines removed, %s added\n\n' "$3" \
    "$(grep -c '^<' <<<"$lines" || true)" "$(grep -c '^>' <<<"$lines" || true)"
}

# sources STAGE...: the names of their source files, the kernels first.
sources() {
  find "${@/#/stages/}" -maxdepth 1 \( -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) -printf '%f\n' |
    sed 's/^kernel/ &/' | LC_ALL=C sort -u | tr -d ' '
}

# diff_stages A B: shows how the sources change. If only B has a backward pass, it names the stage
# whose pass that one follows.
diff_stages() {
  local file from forward=''
  for file in $(sources "$1" "$2"); do
    # A stage of your own need not have the formula of its traffic.
    [[ $file == traffic.cu && ! -e stages/$2/$file ]] || diff_file "$1" "$2" "$file"
  done
  [[ -e stages/$2/kernel_bwd.cuh && ! -e stages/$1/kernel_bwd.cuh ]] || return 0
  from=$(sed -n 's/.*backward\.follows = "\(.*\)";/\1/p' "stages/$2/stage.cu")
  [[ -n $from ]] || return 0
  [[ ! -e stages/$2/kernel.cuh || -n $(changes "$1" "$2" kernel.cuh) ]] ||
    forward="$2 repeats the forward pass of $1. "
  printf '%sThe backward pass is new. It follows that of %s: scripts/run.sh --diff %s %s\n\n' \
    "$forward" "$from" "${from%%_*}" "${2%%_*}"
}

# The options that --help shows.
mapfile -t OPTIONS < <(usage | sed -n 's/^  \(--[a-z]*\) .*/\1/p')

# unknown_word WORD: refuses a word that is not an option.
unknown_word() {
  if [[ $1 != -* ]] && (stage_named "$1") >/dev/null 2>&1; then
    usage_error "\"$1\" is not an option. Did you mean \"--stage $1\"?"
  fi
  usage_error "There is no option \"$1\".$(did_you_mean "$1" "${OPTIONS[@]}") See scripts/run.sh --help."
}

# read_options WORD...: checks the names of options and stages; the ladder checks the rest. Fills `given`,
# the values of each option, and `arguments`, the ladder's command line: it has no --diff and no --break,
# and runs in the repository's root.
declare -A given=()
arguments=()
read_options() {
  local word option=''
  while (($#)); do
    word=$1
    shift
    if [[ $word == --*=?* ]]; then
      set -- "${word#*=}" "$@"
      word=${word%%=*}
    fi
    if [[ $word == -* || -z $option ]]; then
      option=${word%=}
      among "$option" "${OPTIONS[@]}" || unknown_word "$option"
      given[$option]=${given[$option]:-}
      [[ $option == --break ]] || arguments+=("${word/#--diff/--compare}")
      continue
    fi
    case $option in
      --input | --json) word=$(from_root "$word") ;;
      --stage | --annotate | --map | --play | --diff | --compare)
        word=$(stage_named "$word")
        asked_for+=("$word")
        ;;
    esac
    given[$option]+="${given[$option]:+ }$word"
    arguments+=("$word")
  done
}

# check_break: stops unless there is one run to break.
check_break() {
  [[ ${given[--play]:-} =~ ^[^\ ]+$ ]] || usage_error "--break needs --play with one stage."
  ! among --text "${!given[@]}" || usage_error "--break and --text cannot be combined."
}

# check_against STAGE REV: the revision must be one, and have the stage and the library's calls.
check_against() {
  [[ -n $1 && -n $2 && ${#given[@]} -eq 2 ]] ||
    usage_error "--against takes a revision, and needs --stage and no other option."
  git rev-parse --quiet --verify "$2^{commit}" >/dev/null 2>&1 ||
    usage_error "There is no revision \"$2\" here (--against)."
  git grep -q 'const char\* stage' "$2" -- common/include/cuflash/c_api.h 2>/dev/null ||
    usage_error "$2 cannot be compared: its library has no calls that take a stage's name."
  git cat-file -e "$2:stages/$1/stage.cu" 2>/dev/null || usage_error "$2 has no stage $1."
}

# report PRESET: measures all stages, on a GPU at every length of the page's curves, and writes the page.
report() {
  local head_dim length shape
  rm -rf build/report
  mkdir build/report
  "build/$1/bin/ladder" --json build/report/ladder.json || exit 1
  if [[ $1 == release ]]; then
    for head_dim in 64 128; do
      for length in 512 1024 2048 4096 8192 16384; do
        shape=b$((16384 / length))_h$((2048 / head_dim))_q${length}k${length}_d$head_dim
        with_progress "Timing $shape" build/release/bin/ladder --timed "$shape" \
          --json "build/report/ladder_$shape.json" || exit 1
      done
    done
  fi
  exec scripts/report.py --yours build/report/ladder*.json
}

read_options "$@"
! among --report "${!given[@]}" || ((${#given[@]} == 1)) || usage_error "--report takes no other option."
! among --break "${!given[@]}" || check_break
! among --against "${!given[@]}" || check_against "${given[--stage]:-}" "${given[--against]}"
if among --diff "${!given[@]}"; then
  read -ra pair <<<"${given[--diff]}"
  ((${#pair[@]} == 2)) || usage_error "--diff needs A B."
  [[ ${pair[0]} != "${pair[1]}" ]] || usage_error "--diff needs two different stages."
  diff_stages "${pair[@]}"
fi

preset=simt
if has_gpu; then
  if has_nvcc; then
    preset=release
    for option in --annotate --map --play --schedule --block; do
      ! among "$option" "${!given[@]}" || preset=simt
    done
  else
    say "There is a GPU here but no nvcc: using the CPU simulator. To use the GPU, install the CUDA toolkit."
  fi
fi

packages=("${PACKAGES_RUN[@]}")
[[ $preset == release ]] || packages+=("${PACKAGES_SIMT[@]}")
if among --against "${!given[@]}"; then
  need "${packages[@]}" python3
  need_versions
  against=("$preset" "${given[--stage]}" "${given[--against]}")
  if [[ $preset == simt ]]; then build simt ladder; else build release against cuflash_attn; fi
  NINJA_STATUS='[%f/%t] ' with_progress "Building ${given[--stage]} of ${given[--against]}" \
    scripts/maintainer/against.py --build "${against[@]}" 9>&- ||
    die "Building ${given[--against]} failed; see above."
  exec scripts/maintainer/against.py "${against[@]}"
fi
breaks=
! among --break "${!given[@]}" || breaks=yes
[[ -z $breaks ]] && ! among --report "${!given[@]}" || packages+=(python3)
need "${packages[@]}"
need_versions
build "$preset" ladder
! among --report "${!given[@]}" || report "$preset"
if [[ -n $breaks ]]; then
  with_progress "Running ${given[--play]} with its faults" \
    scripts/maintainer/broken_runs.py "${arguments[@]}" ||
    exit 1
  [[ -z ${given[--json]:-} ]] || exit 0
  arguments=(--play "build/play/${given[--play]}.json")
fi
exec "build/$preset/bin/ladder" "${arguments[@]}"
