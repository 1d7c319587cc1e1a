#!/usr/bin/env bash
# Builds the documentation as pages: build/docs/html/index.html.
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

usage() {
  cat <<'END'
Usage: scripts/docs.sh

Builds the book, with Sphinx, and the reference of the API, with Doxygen, into build/docs/html, and
checks every link. The pages work as files: they need no server and no network. The chapters' players
come from the ladder, which scripts/run.sh builds: run that first. Installs what is missing through apt.

Exit status: 0 if the pages are built; 1 if not; 2 if the command line is wrong.
END
}

case ${1:-} in
  -h | --help)
    usage
    exit 0
    ;;
esac
(($# == 0)) || usage_error "scripts/docs.sh takes no \"$1\"; see scripts/docs.sh --help."

need "${PACKAGES_DOCS[@]}"
need_cmake
configure docs
with_progress "Building the documentation" cmake --build --preset docs ||
  die "Building the documentation failed; see above."
say "Built build/docs/html/index.html"
[[ -e build/simt/bin/ladder ]] ||
  say "Its chapters have no players: run scripts/run.sh once, then scripts/docs.sh again."
