#!/usr/bin/env bash
# make_image.sh DEB makes dist/hpu-compile-server-image, an OCI image layout, with the Containerfile
# beside this script. Its base is a Debian 12 that is made here from Debian's packages, so that no
# registry is needed. Must run as root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly deb=$1
readonly image=dist/hpu-compile-server-image
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The image has a storage of its own; vfs needs no support by the kernel. Isolation by chroot needs
# no container runtime either.
readonly buildah=(buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs)

mmdebstrap --variant=minbase bookworm "$work/base.tar"
base=$("${buildah[@]}" from scratch)
"${buildah[@]}" add -q "$base" "$work/base.tar" / >/dev/null
rm "$work/base.tar"
"${buildah[@]}" commit -q --rm "$base" base >/dev/null
mkdir "$work/context"
cp "$deb" "$work/context"
"${buildah[@]}" build --isolation chroot --pull-never --from localhost/base --tag server \
  -f deployment/container/Containerfile "$work/context"
rm -rf "$image"
"${buildah[@]}" push -q localhost/server "oci:$image:latest"
du -sh "$image"
