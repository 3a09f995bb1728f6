#!/bin/bash
# Installs, upgrades and removes the service, as root. Each release is a folder with its own libraries that never changes.
# The link `current` points to the one in use. An instance keeps the release that it was started with.
#
#   release.sh install [COMMIT]  install or upgrade to that commit (default: the one checked out in source); the first
#                                time with Debian's packages
#   release.sh use [RELEASE]     restart the instances one by one with that release (default: the one in use)
#   release.sh uninstall         remove the service; messages, settings and logs stay
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
UNITS=/usr/local/lib/systemd/system # /etc/systemd/system is the operator's.
NGINX=/etc/nginx/conf.d/public-web-interface.conf
umask 022 # The service's user must be able to read what root installs.
cd /opt/public-web-interface
exec 9> .lock
chmod 600 .lock # Anyone who can read it can lock it.

# Printing may fail, because the terminal may be gone.
say() {
    echo "$*" || true
}

fail() {
    say "release.sh: $*" >&2
    exit 1
}

in_use() {
    [ ! -L current ] || basename "$(readlink current)"
}

# The units of the instances that nginx's configuration lists.
instances() {
    sed -nE 's|^\s*server unix:/run/public-web-interface/([0-9]+)/.*|public-web-interface@\1.service|p' "$NGINX"
}

# mv replaces the link in one step, so there is always a release in use. The units are copies, because systemd reads them
# before it mounts the disk that /opt may be on.
switch() {
    ln -sfn "releases/$1" current.new
    mv -T current.new current
    cp -dR current/deploy/systemd/. "$UNITS"
    systemctl daemon-reload
}

# Without reset-failed, systemd would not start an instance that has failed too often. curl requests /api and not the
# health, which returns 410 after v1's sunset.
restart() {
    local instance=${1#*@}
    systemctl reset-failed "$1" 2>/dev/null # fails when the instance has never run
    systemctl enable --quiet "$1" && systemctl restart "$1" && curl --fail --silent --output /dev/null \
        --max-time 5 --retry 30 --retry-delay 1 --retry-all-errors \
        --unix-socket "/run/public-web-interface/${instance%.service}/gunicorn.sock" http://localhost/api
}

# Links nginx to the files of the release in use. If it has no list of instances yet, creates one with an instance per core.
lead_nginx() {
    local made=()
    ln -sfn "$PWD/current/deploy/nginx/snippets" /etc/nginx/snippets/public-web-interface
    if [ ! -e "$NGINX" ]; then
        made=("$NGINX" /etc/nginx/snippets/public-web-interface)
        cp current/deploy/nginx/public-web-interface.conf "$NGINX"
        for ((core = 1; core < $(nproc) && core < 10; core++)); do # METRICS_BIND of the unit has room for ten.
            sed -i "s|^\(.*\)/$((core - 1))/gunicorn.*|&\n\1/$core/gunicorn.sock max_fails=0;|" "$NGINX"
        done
        say "Created $NGINX with an instance for each core"
    fi
    # With an invalid configuration every website would stay down after nginx's next restart.
    nginx -t -q || { rm -f "${made[@]}"; return 1; }
}

# Ignores signals: an interrupted run would leave the link at one release and an instance at another.
use_release() {
    local release=${1#*+} previous unit back moved=() # `version` puts 1.0.0+ before the name
    # A path could point outside releases/.
    [[ $release != */* && -e releases/$release/.whole ]] || fail "there is no complete release '$release' in $PWD/releases"
    "releases/$release/deploy/public-web-interface" check ||
        fail "nothing was restarted; to try $release again, type $PWD/source/deploy/release.sh use $release"
    trap '' HUP INT TERM PIPE
    previous=$(in_use)
    switch "$release"
    if [ "$previous" != "$release" ] && ! lead_nginx; then
        [ -z "$previous" ] || switch "$previous"
        fail "nothing was restarted, because nginx rejects its configuration with $release"
    fi
    [ -n "$(instances)" ] || fail "nothing was restarted, because $NGINX lists no instances"
    for unit in $(instances); do
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
        fail "the restarted instances are back at $previous"
    done
    for unit in $(systemctl list-units --plain --no-legend 'public-web-interface@*.service' | cut -d ' ' -f 1); do
        instances | grep -qx "$unit" || systemctl disable --quiet --now "$unit"
    done
    rm -f "releases/$release/.untried"
    say "In use: $release"
    if [ "$previous" != "$release" ]; then
        systemctl try-reload-or-restart nginx
        [ -z "$previous" ] || say "To go back: $PWD/source/deploy/release.sh use $previous"
    fi
    systemctl is-active --quiet nginx || say "release.sh: nginx does not run; see systemctl status nginx" >&2
}

# nginx is not installed beside another web server: after a restart of the machine, either could get port 80. Nor does
# Debian's default site stay, which would show the source of the programs that another one has left.
install_packages() {
    local other had_nginx
    export DEBIAN_FRONTEND=noninteractive
    say "Installing Debian's packages"
    apt-get install -qq -y --no-upgrade iproute2 >/dev/null
    other=$(ss -Hltnp 'sport = :80 or sport = :443' | awk '!/\("nginx"/ {
        sub(/.*:/, "", $4)
        print (match($0, /\("[^"]+/) ? substr($0, RSTART + 2, RLENGTH - 2) : "another program") " has port " $4
    }')
    [ -z "$other" ] || fail "nginx was not installed: ${other%%$'\n'*}, and may have it again after a restart"
    had_nginx=$(command -v nginx || true)
    apt-get install -qq -y --no-upgrade make python3-venv nginx certbot python3-certbot-nginx curl jq nano dbus >/dev/null
    [ -n "$had_nginx" ] || rm -f /etc/nginx/sites-enabled/default
}

# Installs what is outside of the releases and of nginx. The settings are created once and belong to the operator.
prepare() {
    systemctl start dbus.socket # in case dbus has just been installed
    groupadd --system --force public-web-interface
    id public-web-interface >/dev/null 2>&1 ||
        useradd --system --gid public-web-interface --home-dir /nonexistent --shell /usr/sbin/nologin public-web-interface
    # 1.0.0 used another group.
    [ "$(id -gn public-web-interface)" = public-web-interface ] || usermod --gid public-web-interface public-web-interface
    # Before any instance has its socket in the new group: nginx's processes have the groups of their start.
    if [[ " $(id -Gn www-data) " != *" public-web-interface "* ]]; then
        nginx -t -q || fail "nothing was restarted, because nginx rejects its configuration"
        usermod --append --groups public-web-interface www-data
        systemctl try-reload-or-restart nginx
    fi
    groupadd --system --force public-web-interface-operators
    install -D -m 440 "$1/deploy/sudoers" /etc/sudoers.d/public-web-interface
    mkdir -p "$UNITS"
    ln -sfn "$PWD/current/deploy/public-web-interface" /usr/local/bin/
    for settings in public-web-interface.env public-web-interface-watch.env; do
        [ -e "/etc/$settings" ] || install --verbose -m 600 "$1/deploy/$settings" /etc/
    done
}

install_release() {
    local commit pip
    export PIP_DISABLE_PIP_VERSION_CHECK=1
    [ -e "$NGINX" ] || install_packages # later, the operator may have replaced one
    mkdir -p releases
    prune
    # `release` is not local, because the trap below reads it after this function has ended.
    commit=$(git -C source rev-parse --verify --short "$1^{commit}")
    release=$(date -u +%Y%m%dT%H%M%SZ)-$commit
    say "Creating the release $release"
    mkdir "releases/$release"
    trap 'rm -rf "releases/$release"' EXIT
    git -C source archive "$commit" | tar -x -C "releases/$release"
    make --no-print-directory -C "releases/$release" install
    pip=releases/$release/.venv/bin/pip
    # The unit sets METRICS_BIND, and the operator may set RATE_LIMIT_STORAGE at any time.
    "$pip" install --quiet --require-hashes -r "releases/$release/requirements/metrics.txt" \
        -r "releases/$release/requirements/redis.txt"
    # Libraries that the operator adds, such as Sentry's (docs/monitoring.md). They do not replace the release's own.
    if [ -e /etc/public-web-interface/requirements.txt ]; then
        "$pip" freeze > "releases/$release/.venv/constraints.txt"
        "$pip" install --quiet --constraint "releases/$release/.venv/constraints.txt" \
            -r /etc/public-web-interface/requirements.txt
    fi
    touch "releases/$release/.untried" "releases/$release/.whole"
    trap - EXIT
    prepare "releases/$release"
    use_release "$release"
}

# Keeps the newest five releases that have been in use, and those that are. The others came from runs that failed or were
# killed.
prune() {
    local old kept=0
    for old in $(ls -r releases); do
        [ -e "releases/$old/.whole" ] && [ ! -e "releases/$old/.untried" ] && ((kept++ < 5)) && continue
        { in_use; readlink /proc/[0-9]*/cwd || true; } | grep -qx "$old\|$PWD/releases/$old" || rm -rf "releases/$old"
    done
}

# Each step can be repeated if one fails.
uninstall() {
    local websites own=(/etc/nginx/sites-enabled/{,zz-}public-web-interface.conf)
    # nginx would not start with a line that includes a removed file.
    websites=$(grep -Rl '^[^#]*snippets/public-web-interface/' /etc/nginx --exclude-dir=public-web-interface |
        grep -vxF -e "${own[0]}" -e "${own[1]}" -e "$NGINX" || true)
    [ -z "$websites" ] || fail "first remove the service's line from" $websites
    rm -f "${own[@]}" "$NGINX" /etc/nginx/snippets/public-web-interface
    nginx -t -q || fail "nginx was not reloaded; once nginx -t succeeds, uninstall again"
    systemctl try-reload-or-restart nginx
    systemctl stop 'public-web-interface*'
    systemctl reset-failed 'public-web-interface*'
    rm -rf "$UNITS"/public-web-interface* /etc/systemd/system/*.wants/public-web-interface*
    systemctl daemon-reload
    rm -rf /usr/local/bin/public-web-interface /etc/sudoers.d/public-web-interface releases current .lock
    groupdel public-web-interface-operators 2>/dev/null || true
    say "Removed. The settings in /etc, messages in /var/lib/public-web-interface, their user and group, logs, the
certificate, rules of nftables and $PWD/source stay."
}

flock --nonblock 9 || fail "another release.sh is at work"
case ${1-} in
install) install_release "${2:-HEAD}" ;;
use) use_release "${2:-$(in_use)}" ;;
uninstall) uninstall ;;
*) fail "expected install [COMMIT], use [RELEASE] or uninstall" ;;
esac
