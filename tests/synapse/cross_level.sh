#!/usr/bin/env bash
# Checks that recipes compiled here for older CPUs give the right numbers on emulated ones, which
# also refuse recipes for newer CPUs. usage: cross_level.sh PROGRAM; HPU_SYNAPSE_LIBRARY names the
# library.
set -euo pipefail
program=$1
if ! command -v qemu-x86_64 >/dev/null; then
  echo "skipped: qemu-x86_64 is not installed (Debian package qemu-user)"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

on_cpu() {
  qemu-x86_64 -cpu "$1" "$program" run "$folder/$2"
}

for level in x86-64-v2 x86-64-v3 x86-64-v4; do
  "$program" compile $level "$folder/$level"
done
on_cpu Nehalem x86-64-v2
on_cpu Haswell x86-64-v2
on_cpu Haswell x86-64-v3
for refused in "Nehalem x86-64-v3" "Haswell x86-64-v4"; do
  result=0
  # shellcheck disable=SC2086
  on_cpu $refused || result=$?
  [ $result = 2 ] || { echo "$refused: exit status $result instead of a refusal"; exit 1; }
done
