#!/bin/bash
# A worker of the chaos test: runs until it is told on its pipe with which code to end, or until
# there is a file `finish`. Its round and rank are read from its environment, in /proc.
control=$DDPRUN_TEST_CONTROL
# A child of a child, in a session of its own: nobody's process group reaches it.
[ -z "$DDPRUN_TEST_STRAY" ] || (setsid sleep 86400 &)
mkfifo "$control/orders.$$"
# Read and write, so that opening does not wait for a writer.
exec 9<>"$control/orders.$$"
case $DDPRUN_TEST_TERM in
  slow) trap 'trap - TERM; read -rt 0.2 _ <&9; kill -TERM $$' TERM ;;
  ignore) trap '' TERM ;;
esac
[ ! -e "$control/finish" ] || exit 0
read -r code <&9
exit "$code"
