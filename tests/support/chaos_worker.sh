#!/bin/bash
# A worker of the chaos test. It runs until it reads an exit code on its pipe, or until there is a
# file `finish`. Its round and rank are read from its environment, in /proc.
control=$DDPRUN_TEST_CONTROL
# A grandchild in a session of its own, which no signal to our process group reaches.
[ -z "$DDPRUN_TEST_STRAY" ] || (setsid sleep 86400 &)
mkfifo "$control/orders.$$"
# Open for reading and writing, so that opening does not wait for a writer.
exec 9<>"$control/orders.$$"
case $DDPRUN_TEST_TERM in
  slow) trap 'trap - TERM; read -rt 0.2 _ <&9; kill -TERM $$' TERM ;;
  ignore) trap '' TERM ;;
esac
[ ! -e "$control/finish" ] || exit 0
read -r code <&9
exit "$code"
