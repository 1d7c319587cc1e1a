# shellcheck shell=bash
# Checks the ladder's options, so that run.sh can refuse a wrong one before it builds anything.
# Sourced after lib.sh. The ladder itself reads them in bench/ladder/options.cpp, and a shape in
# common/harness/test_case.cpp; tests/scripts/commands_test.py tests both sides with the same cases.

joined() { (IFS='|' && printf '%s' "$*"); }

# The names of the table in dtype.h.
mapfile -t DTYPES < <(sed -n 's/^ *{CUFLASH_[A-Z0-9]*, "\([a-z0-9]*\)",.*/\1/p' common/include/cuflash/dtype.h)

# Each option and its values.
declare -A TAKES=(
  [--causal]='' [--list]='' [--stage]=STAGE [--annotate]=STAGE [--map]=STAGE [--diff]='A B'
  [--play]='STAGE [STAGE]' [--text]='' [--break]=''
  [--compare]='A B' [--shape]=SHAPE [--input]=DIR [--dtype]="$(joined "${DTYPES[@]}")"
  [--pass]='forward|backward|both' [--schedule]='inorder|reversed|random:SEED|lagging:SEED'
  [--block]='X,Y,Z' [--json]=FILE [--against]=REV
)
VIEWS=(--stage --list --annotate --map --play --diff --compare) # one at a time
# shellcheck disable=SC2034  # used by run.sh
FOR_SIMULATOR=(--annotate --map --play --schedule --block)
WITHOUT_JSON=(--annotate --map)

INPUTS=(gaussian peaky allequal largeq onehot real sharedkv)
LAYOUTS=(bhsd bshd padded spaced far expanded)
LEFT_OUT=(no_lse no_dq no_dk no_dv any_order)

# check_word OPTION TEXT WORD...: TEXT must be one of the words.
check_word() {
  among "${@:2}" || usage_error "$1 takes $(joined "${@:3}"), not \"$2\".$(did_you_mean "${@:2}")"
}

# ---- Shapes ---------------------------------------------------------------------------------------

# not_a_shape TEXT SUGGESTION HELP: refuses TEXT, with HELP if there is no suggestion.
not_a_shape() {
  local help=$3
  [[ -z $2 ]] || help="Did you mean \"$2\"?"
  usage_error "\"$1\" is not a shape. $help"
}

# check_sizes TEXT: the numbers must fit into a C++ int, and the heads must form groups.
check_sizes() {
  local size
  local -a sizes
  read -ra sizes <<<"${1//[^0-9]/ }"
  for size in "${sizes[@]}"; do
    ((${#size} <= 10 && size <= 2147483647)) ||
      usage_error "The size $size in \"$1\" is too large."
  done
  [[ ! $1 =~ h([0-9]+)x([0-9]+) ]] || ((BASH_REMATCH[1] % BASH_REMATCH[2] == 0)) || usage_error \
    "heads_q is ${BASH_REMATCH[1]}, not a multiple of heads_kv, which is ${BASH_REMATCH[2]}."
}

# suffix_suggestion TEXT: the same shape with its first unknown word replaced by a known one.
suffix_suggestion() {
  local word known text=${1//_no_/_no-} # one word each
  text=${text/_any_order/_any-order}
  local -a words all
  all=(causal "${DTYPES[@]}" "${INPUTS[@]}" "${LAYOUTS[@]}" "${LEFT_OUT[@]/_/-}")
  IFS=_ read -ra words <<<"$text"
  for word in "${words[@]:4}"; do
    # A window's side has any width.
    [[ ! $word =~ ^[^0-9]*0*([0-9]+)$ ]] || all+=("left${BASH_REMATCH[1]}" "right${BASH_REMATCH[1]}")
    if ! among "$word" "${all[@]}" && known=$(closest "$word" "${all[@]}"); then
      text=${text/_$word/_$known}
      printf '%s' "${text//-/_}"
      return 0
    fi
  done
}

# check_shape TEXT: sizes, and the suffixes that a test's name may have.
check_shape() {
  local n='[1-9][0-9]*' scale='([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?' sizes rest suffixes like=''
  local width="(0|$n)" digits
  if [[ ! $1 =~ ^(b${n}_h$n(x$n)?_q$n(k$n)?_d$n)(_.*)?$ ]]; then
    if [[ $1 == *ward_b* ]]; then # a test's whole name
      like=${1##*ward_}
    elif [[ ${1,,} =~ ^(b_?${n}_?h_?$n(_?x_?$n)?_?q_?$n(_?k_?$n)?_?d_?$n)(_.*)?$ ]]; then
      like=${BASH_REMATCH[1]//_/}
      like=${like/h/_h}
      like=${like/q/_q}
      like=${like/d/_d}${BASH_REMATCH[4]}
    fi
    not_a_shape "$1" "$like" "One is b2_h4x1_q77k131_d64: batch, query heads x KV heads, lengths of Q and K, head_dim."
  fi
  sizes=${BASH_REMATCH[1]} rest=${BASH_REMATCH[4]}
  suffixes="(_($(joined "${DTYPES[@]}")))?(_causal)?(_left$width)?(_right$width)?(_scale$scale)?"
  suffixes+="(_($(joined "${INPUTS[@]}")))?(_($(joined "${LAYOUTS[@]}")))?$(printf '(_%s)?' "${LEFT_OUT[@]}")"
  [[ $rest =~ ^$suffixes$ ]] || not_a_shape "$1" "$(suffix_suggestion "$1")" \
    "The sizes may be followed, in this order, by dtype, causal, a window (left16, right3), scale0.1, inputs, layout, what is left out, any_order; e.g. _f16_causal_left16_peaky_padded_no_lse."
  digits=${BASH_REMATCH[9]}
  check_sizes "$sizes${BASH_REMATCH[4]}${BASH_REMATCH[6]}"
  [[ $rest != *_scale* || $digits =~ [1-9] ]] ||
    usage_error "The scale in \"$1\" is not positive."
}

# ---- The other options ----------------------------------------------------------------------------

check_schedule() {
  [[ $1 =~ ^(inorder|reversed|(random|lagging):[0-9]{1,19})$ ]] || usage_error \
    "--schedule takes inorder, reversed, random:SEED or lagging:SEED, not \"$1\".$(
      did_you_mean "$1" inorder reversed random:1 lagging:1
    )"
}

check_block() {
  [[ $1 =~ ^[0-9]{1,9},[0-9]{1,9},[0-9]{1,9}$ ]] ||
    usage_error "--block takes an index X,Y,Z, e.g. 3,0,0, not \"$1\"."
}

# check_input FOLDER: the folder must hold three arrays.
check_input() {
  local name
  [[ -d $1 ]] || usage_error "There is no folder \"$1\" (--input)."
  for name in q k v; do
    [[ -e $1/$name.npy ]] || usage_error "The folder \"$1\" has no $name.npy (--input)."
  done
}

# check_json FILE: its folder must exist.
check_json() {
  [[ -d $(dirname "$1") ]] || usage_error "There is no folder \"$(dirname "$1")\" (--json)."
  [[ ! -d $1 ]] || usage_error "\"$1\" is a folder (--json)."
}

# check_against STAGE REV: the revision must be one, and have the stage and the library's calls.
check_against() {
  git rev-parse --quiet --verify "$2^{commit}" >/dev/null 2>&1 ||
    usage_error "There is no revision \"$2\" here (--against)."
  git grep -q 'const char\* stage' "$2" -- common/include/cuflash/c_api.h 2>/dev/null ||
    usage_error "$2 is older than the library's calls that take a stage's name: it cannot be compared."
  git cat-file -e "$2:stages/$1/stage.cu" 2>/dev/null || usage_error "$2 has no stage $1."
}

# check_value OPTION TEXT: stops unless the option takes TEXT.
check_value() {
  case $1 in
    --shape) check_shape "$2" ;;
    --dtype) check_word --dtype "$2" "${DTYPES[@]}" ;;
    --pass) check_word --pass "$2" forward backward both ;;
    --schedule) check_schedule "$2" ;;
    --block) check_block "$2" ;;
    --input) check_input "$2" ;;
    --json) check_json "$2" ;;
  esac
}

# ---- The command line -----------------------------------------------------------------------------

# check_together: stops if two of the given options exclude each other.
check_together() {
  local one view=''
  for one in "${VIEWS[@]}"; do
    among "$one" "${!given[@]}" || continue
    [[ -z $view ]] || usage_error "$view and $one do not go together."
    view=$one
  done
  [[ -z ${given[--json]:-} ]] || ! among "$view" "${WITHOUT_JSON[@]}" ||
    usage_error "$view and --json do not go together."
  for one in --text --break; do
    ! among "$one" "${!given[@]}" || [[ $view == --play ]] || usage_error "$one needs --play."
  done
  if among --break "${!given[@]}"; then
    [[ ${given[--play]} != *' '* ]] || usage_error "--break takes one stage."
    ! among --text "${!given[@]}" || usage_error "--break and --text do not go together."
  fi
  if among --against "${!given[@]}"; then
    [[ $view == --stage ]] || usage_error "--against needs --stage."
    ((${#given[@]} == 2)) || usage_error "--against and other options do not go together."
    check_against "${given[--stage]}" "${given[--against]}"
  fi
  [[ -z ${given[--input]:-} || -z ${given[--shape]:-} || ${given[--shape]} == *_real* ]] ||
    usage_error "--input is for real inputs: leave out --shape, or use one that ends in _real."
}

# unknown_word WORD: refuses a word that is not an option.
unknown_word() {
  if [[ $1 != -* ]] && (stage_named "$1") >/dev/null 2>&1; then
    usage_error "\"$1\" is not an option. Did you mean \"--stage $1\"?"
  fi
  usage_error "There is no option \"$1\".$(did_you_mean "$1" "${!TAKES[@]}") See scripts/run.sh --help."
}

# read_options WORD...: checks the command line. Fills `given`, the values of each option, and
# `arguments`, the ladder's command line: it has no --diff and no --break, and runs in the repository's root.
declare -A given=()
arguments=()
read_options() {
  local option value name
  local -a names
  while (($#)); do
    option=$1
    shift
    if [[ $option == --*=* ]]; then
      set -- "${option#*=}" "$@"
      option=${option%%=*}
      [[ -n ${TAKES[$option]-STAGE} ]] || usage_error "$option takes no value."
    fi
    among "$option" "${!TAKES[@]}" || unknown_word "$option"
    read -ra names <<<"${TAKES[$option]}"
    ((${#names[@]} == 0)) || ! among "$option" "${!given[@]}" || usage_error "$option is given twice."
    [[ $option == --break ]] || arguments+=("${option/#--diff/--compare}")
    given[$option]=
    for name in "${names[@]}"; do
      value=${1:-}
      if [[ -z $value || $value == -* ]]; then
        [[ $name != '['* ]] || continue
        usage_error "$option needs ${names[*]}."
      fi
      shift
      case $option in
        --input | --json) value=$(from_root "$value") ;;
        --stage | --annotate | --map | --play | --diff | --compare)
          value=$(stage_named "$value")
          asked_for+=("$value")
          ;;
      esac
      check_value "$option" "$value"
      arguments+=("$value")
      [[ ${given[$option]} != "$value" ]] || usage_error "$option needs two different stages."
      given[$option]+="${given[$option]:+ }$value"
    done
  done
  check_together
}
