# shellcheck shell=sh
# Sourced by the tools/get-* scripts: programs for the tests that Debian does not have, built or fetched
# once per machine in pinned versions, and linked into BUILD/real.
#
# What cannot be had: BUILD/real/NAME.why says why, the tests that need it skip themselves with that line,
# and the script ends with 0: `make check` then fails by the skips, which it lists (tests/allowed-skips).
set -eu

real=${1:?usage: $0 BUILD}/real
mkdir -p "$real"
real=$(cd "$real" && pwd)
tools=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dlcache-test-tools
deadline=$(($(date +%s) + ${GET_SECONDS:-1500}))

left() { # seconds; never 0, which is no limit to timeout(1)
    s=$((deadline - $(date +%s)))
    echo $((s > 0 ? s : 1))
}

no() { # NAME WHY
    echo "$2" >"$real/$1.why"
    echo "${0##*/}: $2; the tests that need it cannot run" >&2
    exit 0
}

put() { # NAME PATH VERSION
    rm -f "$real/$1" "$real/$1.why"
    ln "$2" "$real/$1" 2>/dev/null || ln -s "$2" "$real/$1"
    echo "$3" >"$real/$1.version"
}

# A program of a Go module, by `go install`.
go_install() { # DIR NAME MODULE@VERSION
    GOBIN=$1/new CGO_ENABLED=0 timeout "$(left)" go install -p 2 -trimpath -ldflags '-s -w' "$3"
}

# Build a program unless the cache has it: the function gets the cache's directory, NAME and the rest, and
# leaves DIR/new/NAME.
built() { # NAME VERSION FUNCTION [ARGUMENT...]
    name=$1 version=$2 function=$3
    shift 3
    dir=$cache/$name-$version
    mkdir -p "$dir"
    if [ ! -x "$dir/$name" ]; then
        go=$("$tools/get-go") || no "$name" "$name cannot be built: $go"
        PATH=$go:$PATH
        echo "building $name $version (once)"
        exec 9>"$dir/lock"
        flock -w "$(left)" 9 || no "$name" "$name is being built by another process; run ${0##*/} again later"
        if [ ! -x "$dir/$name" ]; then
            ($function "$dir" "$name" "$@") >"$dir/log" 2>&1 || {
                [ "$(left)" -gt 1 ] || no "$name" "$name was not built in time; to go on run: tools/${0##*/} BUILD"
                no "$name" "$name could not be built: $(tail -n 1 "$dir/log")"
            }
            mv "$dir/new/$name" "$dir/$name"
            rm -rf "$dir/src" "$dir/new"
        fi
        exec 9>&-
    fi
    put "$name" "$dir/$name" "$version"
}
