#!/bin/sh
# Makes a board quiet for measuring ("apply"), and puts everything back ("restore"). It changes nothing that
# outlives a boot; what was there before is noted in $NOTES.
set -u
NOTES=${NOTES:-/run/roambench-board}
SYS=${SYS:-/sys}
PATH=$PATH:/usr/sbin:/sbin

# The value of a file; of a list of choices ("none [mmc0] timer") the chosen one.
now() {
    sed 's/.*\[\(.*\)\].*/\1/' "$1" 2>/dev/null
}

# FILE VALUE [BACK]: write VALUE, note what to write to have it back.
put() {
    [ -w "$1" ] || return 0
    old=$(now "$1")
    [ "$old" = "$2" ] && return 0
    echo "$2" 2>/dev/null >"$1" && echo "write $1 ${3:-$old}" >>"$NOTES"
}

apply() {
    touch "$NOTES"
    for file in "$SYS"/devices/system/cpu/cpu*/cpufreq/scaling_governor; do
        put "$file" performance
    done
    for led in ACT PWR led0 led1; do
        put "$SYS/class/leds/$led/trigger" none
        put "$SYS/class/leds/$led/brightness" 0
    done
    for file in "$SYS"/class/drm/card*HDMI*/status; do
        put "$file" off detect
    done
    for radio in "$SYS"/class/rfkill/*; do
        [ "$(now "$radio/type")" = bluetooth ] && put "$radio/soft" 1
    done
    for phy in "$SYS"/class/net/*/phy80211; do
        [ -e "$phy" ] || continue
        link=$(basename "$(dirname "$phy")")
        if iw dev "$link" get power_save 2>/dev/null | grep -q on; then
            iw dev "$link" set power_save off && echo "power_save $link on" >>"$NOTES"
        fi
    done
    # Compressed swap in memory may stay; swap on the SD card is both slow and loud.
    sed -n '2,$s/[[:space:]].*//p' /proc/swaps | grep -v zram | while read -r swap; do
        swapoff "$swap" && echo "swapon $swap -" >>"$NOTES"
    done
    for timer in apt-daily.timer apt-daily-upgrade.timer man-db.timer e2scrub_all.timer fstrim.timer; do
        if systemctl is-active --quiet "$timer"; then
            systemctl stop "$timer" && echo "start $timer -" >>"$NOTES"
        fi
    done
    return 0
}

restore() {
    [ -e "$NOTES" ] || return 0
    # Backwards: a LED's brightness before its trigger.
    sed '1!G;h;$!d' "$NOTES" | while read -r step what value; do
        case $step in
            write) echo "$value" >"$what" ;;
            power_save) iw dev "$what" set power_save "$value" ;;
            swapon) swapon "$what" ;;
            start) systemctl start --no-block "$what" ;;
        esac
    done
    rm -f "$NOTES"
}

case ${1:-} in
    apply) apply ;;
    restore) restore ;;
    *) echo "usage: $0 apply|restore" >&2; exit 2 ;;
esac
