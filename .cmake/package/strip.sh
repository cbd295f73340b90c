#!/bin/sh
# Copies programs without their debug information, which gets a file of its own that gdb finds beside
# the program or below /usr/lib/debug.
#
#   strip.sh FOLDER DEBUG_FOLDER PROGRAM...
set -eu
folder=$1 debug=$2
shift 2
mkdir -p "$folder" "$debug"
for program; do
  name=$(basename "$program")
  objcopy --only-keep-debug "$program" "$debug/$name.debug"
  strip -o "$folder/$name" "$program"
  objcopy --add-gnu-debuglink="$debug/$name.debug" "$folder/$name"
done
