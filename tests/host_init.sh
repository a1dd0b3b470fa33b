#!/usr/bin/env bash
# PID 1 of a host in namespaces of its own (network, processes, mounts): a private home, /tmp, /run and /dev/shm, and an sshd.
# Usage: host_init.sh NAME ADDRESS FOLDER KEEP...   (KEEP: directories that must stay visible, such as the interpreter's)
set -eu
name=$1 address=$2 folder=$3
home=$(getent passwd 0 | cut -d: -f6)
shift 3
hostname "$name"
mount --make-rprivate /
mkdir -p "$folder/$name/home" "$folder/$name/keep"
k=0
for kept in "$@"; do  # held aside before something is mounted above them
  mkdir -p "$folder/$name/keep/$k"
  mount --bind "$kept" "$folder/$name/keep/$k"
  k=$((k + 1))
done
mkdir -p "$folder/$name/keep/folder"
mount --bind "$folder" "$folder/$name/keep/folder"
mount --bind "$folder/$name/home" "$home"
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t tmpfs -o size=2g tmpfs /dev/shm
k=0
for kept in "$@"; do
  mkdir -p "$kept"
  mountpoint -q "$kept" || mount --bind "$folder/$name/keep/$k" "$kept" 2>/dev/null || true
  k=$((k + 1))
done
mkdir -p /run/sshd "$home/.ray"
cat > "$folder/$name/sshd_config" <<CONFIG
Port 22
ListenAddress $address
HostKey $folder/host_key
AuthorizedKeysFile $folder/id.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
PidFile /run/sshd.pid
UseDNS no
CONFIG
"$(command -v sshd)" -D -f "$folder/$name/sshd_config" -E "$folder/$name/sshd.log" &
while true; do wait || true; sleep 1; done
