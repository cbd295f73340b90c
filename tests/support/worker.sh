#!/bin/bash
# A worker for the cluster tests: reports its rank, then follows orders. It appends lines to
# $DDPRUN_TEST_CONTROL/events, and reads orders from $DDPRUN_TEST_CONTROL/orders.RANK.
control=$DDPRUN_TEST_CONTROL
say() {
  # One write of one short line, so that appends of several workers do not mix.
  printf '%s\n' "$*" >>"$control/events"
}
facts() {
  echo "rank=$RANK local_rank=$LOCAL_RANK group_rank=$GROUP_RANK world_size=$WORLD_SIZE" \
    "nodes=$GROUP_WORLD_SIZE round=$DDPRUN_ROUND instance=$DDPRUN_INSTANCE" \
    "role=$ROLE_NAME role_rank=$ROLE_RANK role_world_size=$ROLE_WORLD_SIZE" \
    "restarts=$TORCHELASTIC_RESTART_COUNT node=$DDPRUN_NODE_ID master=$MASTER_ADDR:$MASTER_PORT" \
    "pid=$$ at=$EPOCHREALTIME"
}
[ -n "$DDPRUN_TEST_TERM" ] && trap 'say term $(facts); [ "$DDPRUN_TEST_TERM" = ignore ] || exit 0' TERM INT
orders=$control/orders.$RANK
[ -p "$orders" ] || mkfifo "$orders" 2>/dev/null
say start $(facts)
while true; do
  # Open for reading and writing: then opening cannot block signals, and a writer's end is no EOF.
  exec 9<>"$orders"
  if read -r line <&9; then
    exec 9>&-
    say order $(facts)
    eval "$line"
  fi
done
