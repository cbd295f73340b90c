# shellcheck shell=bash
# For scripts that start programs which take minutes; source it.
#
#   foreground apt-get install ...
#
# A signal that ends the script ends the program first; bash itself would leave it running (SIGTERM,
# SIGHUP), or wait for it. The program and all that it has started are sent SIGINT, as by Ctrl-C, on
# which apt-get, dpkg and pip leave nothing half done, and the script waits for their end.

is_foreground=
exec {people}>&2 # also while the script writes its errors into a log

foreground() {
  local status=0
  is_foreground=1
  # Bash starts background programs with SIGINT ignored.
  env --default-signal=INT "$@" &
  wait $! || status=$?
  is_foreground=
  return $status
}

# This process and its descendants.
family() {
  local child
  echo "$1"
  for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do family "$child"; done
}

# `$!` is set as soon as the program runs, which a variable of ours would not be.
end_by() {
  echo "${0##*/}: SIG$1: ending all that was started" >&"$people"
  if [ -n "$is_foreground" ] && [ -n "${!:-}" ]; then
    local program=$! family one
    local until=$((SECONDS + 60)) # of its descendants, one that ignores SIGINT is left alone
    mapfile -t family < <(family "$program") # this changes `$!`
    # Use sudo for programs that run as root. Sudo does not pass on signals from its own process
    # group, which without job control is this script's.
    kill -INT "${family[@]}" 2>/dev/null ||
      sudo -n setsid kill -INT "${family[@]}" 2>/dev/null || true
    # Another signal ends the wait, but not the program.
    while [ -d "/proc/$program" ]; do wait "$program" || true; done
    for one in "${family[@]}"; do
      while [ -d "/proc/$one" ] && [ $SECONDS -lt $until ]; do sleep 0.1 || true; done
    done
  fi
  exit $((128 + $(kill -l "$1")))
}
for signal in HUP INT TERM; do
  # shellcheck disable=SC2064
  trap "end_by $signal" "$signal"
done
unset signal
