# shellcheck shell=bash
# Sourced by the tests of the packages. Each is a script that builds one kind of package in a bare root
# (tools/bare), installs it in another, uses it as its user would, and says what holds.
#
#   check "what holds" COMMAND...     runs the command; prints ok or FAIL with the end of its output
#   bare ARGUMENT...                  tools/bare
#   $out                              a directory of this test that is kept: BUILD/package-tests/NAME
#
# The exit status of the script is that of packages_end, its last command.
set -uo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
name=${0##*/}
out=$top/${BUILD:-build}/package-tests/$name
passed=0 failed=0
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/dlcache-packages.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

bare() { "$top/tools/bare" "$@"; }

check() { # WHAT COMMAND...
    local what=$1 start=$SECONDS
    shift
    if "$@" >"$work/said" 2>&1 </dev/null; then
        passed=$((passed + 1))
        echo "ok    $name: $what  $((SECONDS - start)) s"
    else
        failed=$((failed + 1))
        echo "FAIL  $name: $what"
        tail -n 40 "$work/said" | sed 's/^/      | /'
        return 1
    fi
}

# A figure for people: the size of a file or directory in MB, and that it is below a limit.
check_size() { # WHAT PATH LIMIT-MB
    local bytes
    bytes=$(du -sb "$2" | cut -f1)
    check "$1: $((bytes / 100000 / 10)).$((bytes / 100000 % 10)) MB, below $3 MB" test "$bytes" -lt $(($3 * 1000000))
}

packages_end() {
    echo "$passed passed, $failed failed, 0 skipped"
    [ "$failed" = 0 ] && [ "$passed" != 0 ]
}
