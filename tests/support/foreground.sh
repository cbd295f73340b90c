# shellcheck shell=bash
# For scripts that start programs which take minutes; source it.
#
#   foreground apt-get install ...
#
# A signal that ends the script ends the program first; bash itself would leave it running (SIGTERM,
# SIGHUP), or wait for it. The program is sent SIGINT, on which apt-get, dpkg and pip leave nothing
# half done, and the script waits for its end.

is_foreground=

foreground() {
  local status=0
  is_foreground=1
  # Bash starts background programs with SIGINT ignored.
  env --default-signal=INT "$@" &
  wait $! || status=$?
  is_foreground=
  return $status
}

# `$!` is set as soon as the program runs, which a variable of ours would not be.
end_by() {
  echo "${0##*/}: SIG$1: ending all that was started" >&2
  if [ -n "$is_foreground" ] && [ -n "${!:-}" ]; then
    # Use sudo for a program that runs as root. Sudo does not pass on signals from its own process
    # group, which without job control is this script's.
    kill -INT $! 2>/dev/null || sudo -n setsid kill -INT $! 2>/dev/null || true
    # Another signal ends the wait, but not the program.
    while [ -d "/proc/$!" ]; do wait $! || true; done
  fi
  exit $((128 + $(kill -l "$1")))
}
for signal in HUP INT TERM; do
  # shellcheck disable=SC2064
  trap "end_by $signal" "$signal"
done
unset signal
