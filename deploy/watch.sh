#!/bin/bash
# Tells the operator what is wrong, on machines without Prometheus. systemd runs it as the service's user.
#
#   watch.sh mail              public-web-interface-watch.timer: report when the mail is not OK, and when it is again
#   watch.sh failure INSTANCE  the unit's OnFailure=: report that the instance does not come up
#
# A lasting problem is reported once a day. Reports are remembered in memory, because the disk may have failed.
set -euo pipefail
cd "$RUNTIME_DIRECTORY"
DAY=1440 # minutes

# One working channel is enough. A webhook's address is a secret, so it is not passed as an argument. Nor is the text,
# which may be too long for one.
tell() {
    local text body told=
    text="$(hostname): $1"
    echo "$text"
    if [ -n "${WATCH_WEBHOOK-}" ] && body=$(printf %s "$text" | jq --raw-input --slurp '{text: .}') &&
        printf %s "$body" | curl --globoff --silent --show-error --fail --max-time 30 --output /dev/null \
            --header 'Content-Type: application/json' --data-binary @- \
            --config <(printf 'url = "%s"\n' "$WATCH_WEBHOOK"); then
        told=yes
    fi
    if [ -n "${WATCH_MAIL-}" ] && printf 'To: %s\nSubject: public-web-interface on %s\n\n%s\n' \
        "$WATCH_MAIL" "$(hostname)" "$text" | sendmail -i -- "$WATCH_MAIL"; then
        told=yes
    fi
    if [ -z "$told" ]; then
        echo "watch.sh: nobody was told; see WATCH_WEBHOOK and WATCH_MAIL in /etc/public-web-interface-watch.env" >&2
        exit 1
    fi
}

younger() {
    [ -e "$1" ] && [ -n "$(find "$1" -mmin "-$2")" ]
}

mail_status() {
    (cd /opt/public-web-interface/current && .venv/bin/flask --app wsgi mail status 2>&1 | tail -n 1)
}

watch_mail() {
    local line known
    # A restart of the mail server is not reported.
    if line=$(mail_status) || { sleep 60 && line=$(mail_status); }; then
        if [ -e mail ]; then
            tell "the mail of public-web-interface is fine again: $line"
            rm mail
        fi
        return
    fi
    # A change only in numbers or in the mail server's reply is not a new problem.
    known=$(sed -E 's/: .*//; s/; oldest waiting for .*//; s/[0-9]+//g' <(echo "$line"))
    if [ "$(cat mail 2>/dev/null)" != "$known" ] || ! younger mail "$DAY"; then
        tell "the mail of public-web-interface needs attention: $line; see public-web-interface mail list"
        echo "$known" > mail
    fi
}

# systemd calls this after each round of start attempts. After half an hour without a call, it is a new failure.
watch_failure() {
    if ! younger "seen-$1" 30 || ! younger "told-$1" "$DAY"; then
        tell "public-web-interface@$1 does not come up; see journalctl -u public-web-interface@$1 -n 20, and public-web-interface check"
        touch "told-$1"
    fi
    touch "seen-$1"
}

case ${1-} in
mail) watch_mail ;;
failure) watch_failure "${2:?}" ;;
*) echo "usage: watch.sh mail | failure INSTANCE" >&2 && exit 1 ;;
esac
