#!/bin/bash
# Tells the operator what is wrong, on machines without Prometheus. systemd runs it as the service's user.
#
#   watch.sh mail              public-web-interface-watch.timer: say when the mail is not OK, and when it is again
#   watch.sh failure INSTANCE  the unit's OnFailure=: say that the instance does not come up
#
# The same is said once a day. What was said is remembered in memory, because the disk may be what fails.
set -euo pipefail
cd "$RUNTIME_DIRECTORY"
DAY=1440 # minutes

# One way that works is enough. The address of a webhook is a secret, so it is no argument of a program. Nor is the text,
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
    # A mail server that restarts is no news.
    if line=$(mail_status) || { sleep 60 && line=$(mail_status); }; then
        if [ -e mail ]; then
            tell "the mail of public-web-interface is fine again: $line"
            rm mail
        fi
        return
    fi
    # Neither numbers nor the words of the mail server make it another message.
    known=$(sed -E 's/: .*//; s/; the oldest waits for .*//; s/[0-9]+//g' <(echo "$line"))
    if [ "$(cat mail 2>/dev/null)" != "$known" ] || ! younger mail "$DAY"; then
        tell "the mail of public-web-interface needs a hand: $line; see public-web-interface mail list"
        echo "$known" > mail
    fi
}

# systemd calls this after each round of tries. After half an hour without one it is a new failure.
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
*) echo "watch.sh: mail, or failure INSTANCE" >&2 && exit 1 ;;
esac
