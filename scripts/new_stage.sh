#!/usr/bin/env bash
# Makes a stage of your own from an existing one.
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

usage() {
  cat <<'END'
Usage: scripts/new_stage.sh NAME --from STAGE

Copies a stage, given by number or name, to stages/9N_NAME. The tests and the ladder include the copy
at once; git ignores it. To remove it, delete the directory. For example:
  scripts/new_stage.sh mine --from 01
END
}

name=
from=
while (($#)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --from)
      from=${2:-}
      [[ -n $from ]] || usage_error "--from needs a stage's number or name."
      shift
      ;;
    --from=*) from=${1#*=} ;;
    -*)
      usage_error "There is no option \"$1\".$(did_you_mean "$1" --from --help)" \
        "See scripts/new_stage.sh --help."
      ;;
    *)
      [[ -z $name ]] || usage_error "One name only; see scripts/new_stage.sh --help."
      name=$1
      ;;
  esac
  shift
done
[[ -n $name && -n $from ]] ||
  usage_error "A name and --from are needed, e.g. scripts/new_stage.sh mine --from 01."
[[ $name =~ ^[a-z][a-z0-9]*(_[a-z0-9]+)*$ ]] ||
  usage_error "\"$name\" cannot be a C++ namespace here: use lower-case letters, digits and single underscores."

old=$(stage_named "$from")

# True if C++ or the headers that the copied stage includes use the name.
is_used() {
  command -v g++ >/dev/null && ! {
    cat "stages/$old"/*.cu* | grep '^#include ".*/'
    printf 'int %s;\nnamespace cuflash { int %s; }\n' "$1" "$1"
  } | g++ -std=c++17 -fsyntax-only -Icommon/simt/include -Icommon -Icommon/include -xc++ - 2>/dev/null
}
if among "$name" mutations exercise || is_used "$name"; then
  usage_error "\"$name\" is already a name in C++, the sources or scripts/test.sh: choose another name."
fi

shopt -s nullglob
taken=(stages/[0-9][0-9]_"$name")
((${#taken[@]} == 0)) || die "${taken[0]} already exists."
new=
for number in {90..99}; do
  taken=(stages/"${number}"_*)
  if ((${#taken[@]} == 0)); then
    new=${number}_$name
    break
  fi
done
[[ -n $new ]] || die "stages/90 to 99 are taken; delete one of them."

cp -r "stages/$old" "stages/$new"
rm -rf "stages/$new"/{exercises,README.md,NOTEBOOK.md,faults.ini,tour.txt,tour_bwd.txt,traffic.cu,variants.diff} # the original's
# The stage's name and its namespace; nothing outside the directory depends on anything else in it.
find "stages/$new" -type f \( -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) \
  -exec sed -i "s/\b$old\b/$new/g; s/\bcuflash::${old#*_}\b/cuflash::$name/g" {} +
# It follows the original, and a stage that will change repeats no other stage's kernels.
sed -i "/\.repeats = /d; /\.follows = /d; s/^\( *stage\.[a-z]*\) = .*_pass<.*/&\n\1.follows = \"$old\";/" \
  "stages/$new/stage.cu"
cat >"stages/$new/README.md" <<END
# $new

Made from [$old](../$old/README.md). What does it do differently? How many bytes does it request, predicted
and counted? What limits it now?
END

kernel=kernel.cuh
[[ -e stages/$new/$kernel ]] || kernel=kernel_bwd.cuh
cat <<END
Made stages/$new from stages/$old.
  edit      stages/$new/$kernel
  test      scripts/test.sh ${new%%_*}
  compare   scripts/run.sh
  remove    rm -r stages/$new
END
