#!/bin/bash
# Manages the releases of the service, as root. Each release has a folder of its own with its own libraries, and does not
# change once it is whole. The link `current` points to the one in use. An instance keeps the release that it was started
# with.
#
#   release.sh install [COMMIT]  make a release of that commit, or of the one checked out in source, and use it
#   release.sh use [RELEASE]     restart one instance after the other with that release, or with the one in use
#   release.sh remove RELEASE    delete a release that is not in use
set -euo pipefail
umask 022 # The service's user reads what root installs.
cd /opt/public-web-interface
exec 9> .lock
needs_redis=$(grep -s '^RATE_LIMIT_STORAGE=.' /etc/public-web-interface.env || true)

# The terminal may be gone.
say() {
    echo "$*" || true
}

fail() {
    say "release.sh: $*" >&2
    exit 1
}

# A path would lead out of releases/, and a slash at the end would hide that a release is in use.
check_name() {
    case $1 in
    */* | .* | '') fail "'$1' is not the name of a release; see ls $PWD/releases" ;;
    esac
}

in_use() {
    if [ -L current ]; then
        basename "$(readlink current)"
    fi
}

# Replacing a link by another is one step of the kernel: there is always a release in use.
switch() {
    ln -sfn "releases/$1" current.new
    mv -T current.new current
}

# systemd starts no instance that was tried too often, unless it is told to forget that. The instance is asked for /api and
# not for the health, which answers 410 once v1 has reached its sunset.
restart() {
    local instance=${1#*@}
    systemctl reset-failed "$1" && systemctl restart "$1" && curl --fail --silent --output /dev/null \
        --max-time 5 --retry 30 --retry-delay 1 --retry-all-errors \
        --unix-socket "/run/public-web-interface/${instance%.service}/gunicorn.sock" http://localhost/api
}

# A session that ends in the middle would leave the link at one release and an instance at another.
use_release() {
    trap '' HUP INT TERM PIPE
    local release=$1 previous units unit back moved=()
    check_name "$release"
    [ -e "releases/$release/.whole" ] || fail "there is no whole release '$release' in $PWD/releases"
    if [ -n "$needs_redis" ] && ! "releases/$release/.venv/bin/python" -c 'import redis' 2>/dev/null; then
        fail "RATE_LIMIT_STORAGE is set, and $release lacks the library that it needs: use 'release.sh install'"
    fi
    previous=$(in_use)
    units=$(systemctl list-units --plain --no-legend 'public-web-interface@*.service' | cut -d ' ' -f 1)
    switch "$release"
    for unit in $units; do
        moved=("$unit" "${moved[@]}")
        restart "$unit" && continue
        say "release.sh: $unit does not answer with $release; see journalctl -u $unit" >&2
        if [ -z "$previous" ] || [ "$previous" = "$release" ]; then
            exit 1
        fi
        switch "$previous"
        for back in "${moved[@]}"; do
            restart "$back" || fail "$back does not answer with $previous either; the others were left alone"
        done
        fail "those that had moved are back at $previous; remove $release once you know what was wrong with it"
    done
    say "In use: $release"
    if [ -n "$previous" ] && [ "$previous" != "$release" ]; then
        say "To go back: $PWD/source/deploy/release.sh use $previous"
    fi
}

install_release() {
    local commit pip
    # `release` is not local: the trap below reads it when the script has left this function.
    commit=$(git -C source rev-parse --verify --short "$1^{commit}")
    release=$(date -u +%Y%m%dT%H%M%SZ)-$commit
    mkdir -p releases
    mkdir "releases/$release"
    trap 'rm -rf "releases/$release"' EXIT
    git -C source archive "$commit" | tar -x -C "releases/$release"
    make --no-print-directory -C "releases/$release" install
    pip=releases/$release/.venv/bin/pip
    # The unit sets METRICS_BIND.
    "$pip" install --quiet --require-hashes -r "releases/$release/requirements-metrics.txt"
    if [ -n "$needs_redis" ]; then
        "$pip" install --quiet --require-hashes -r "releases/$release/requirements-redis.txt"
    fi
    # Libraries that the operator adds, such as Sentry's (docs/monitoring.md). They replace none of the release.
    if [ -e /etc/public-web-interface/requirements.txt ]; then
        "$pip" freeze > "releases/$release/.venv/constraints.txt"
        "$pip" install --quiet --constraint "releases/$release/.venv/constraints.txt" \
            -r /etc/public-web-interface/requirements.txt
    fi
    touch "releases/$release/.whole"
    trap - EXIT
    use_release "$release"
}

remove_release() {
    check_name "$1"
    [ -d "releases/$1" ] || fail "there is no release '$1' in $PWD/releases"
    if [ "$1" = "$(in_use)" ] || { readlink /proc/[0-9]*/cwd || true; } | grep -qxF "$(realpath "releases/$1")"; then
        fail "$1 is in use"
    fi
    rm -rf "releases/$1"
}

flock --nonblock 9 || fail "another release.sh is at work"
case ${1-} in
install) install_release "${2:-HEAD}" ;;
use) use_release "${2:-$(in_use)}" ;;
remove) remove_release "${2-}" ;;
*) fail "install [COMMIT], use [RELEASE] or remove RELEASE" ;;
esac
