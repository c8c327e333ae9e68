#!/usr/bin/env bash
# boot_root.sh ROOT: the systemd of a Debian root as the first process of namespaces of its own; only the network
# is the host's. Run under unshare --mount --pid --fork --cgroup --uts --ipc, as root.
set -euo pipefail
readonly root=$1
mount --bind "$root" "$root"
cd "$root"
mkdir -p old
mount -t proc proc proc
# The kernel is the host's: nothing of it is set from here.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run -o mode=755
mount -t tmpfs tmpfs dev -o mode=755
# Made and not mounted from the host: systemd changes owner and mode of its console, which is nothing here.
for device in null:3 zero:5 full:7 random:8 urandom:9 console:3; do
  mknod -m 666 "dev/${device%:*}" c 1 "${device#*:}"
done
mknod -m 666 dev/tty c 5 0
mkdir dev/pts dev/shm
mount -t devpts devpts dev/pts -o newinstance
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
pivot_root . old
umount -l old
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target
