# shellcheck shell=bash
# Sourced by the scripts that start programs which take minutes.
#
#   foreground apt-get install ...
#
# A signal that ends the script ends the program first: by itself bash would leave it running
# (SIGTERM, SIGHUP), or wait for it. It is told by SIGINT, at which apt-get, dpkg and pip leave
# nothing half done, and is waited for.

is_foreground=

foreground() {
  local status=0
  is_foreground=1
  # Bash starts what it does not wait for with SIGINT ignored.
  env --default-signal=INT "$@" &
  wait $! || status=$?
  is_foreground=
  return $status
}

# `$!` is known as soon as the program runs, which a variable of ours would not be.
end_by() {
  echo "${0##*/}: SIG$1: ending all that was started" >&2
  if [ -n "$is_foreground" ] && [ -n "${!:-}" ]; then
    # As root where the program is, too. Sudo hands on no signal that comes from its own process
    # group, and without job control that is this script's.
    kill -INT $! 2>/dev/null || sudo -n setsid kill -INT $! 2>/dev/null || true
    # Another signal ends the waiting, not the program.
    while [ -d "/proc/$!" ]; do wait $! || true; done
  fi
  exit $((128 + $(kill -l "$1")))
}
for signal in HUP INT TERM; do
  # shellcheck disable=SC2064
  trap "end_by $signal" "$signal"
done
unset signal
