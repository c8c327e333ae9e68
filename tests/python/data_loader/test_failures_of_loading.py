"""Damaged images, programs that end early, forks: HabanaDataLoader names the image and leaves
nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from photograph_folders import photograph_folder, vision_package  # noqa: F401  fixtures
from photographs import jpeg_of, small_photograph

from habana_dataloader import HabanaDataLoader

PARAMETERS = {"num_workers": 8, "pin_memory": True}


def transform_of(vision):
    names = vision.transforms
    return names.Compose([names.RandomResizedCrop(64), names.ToTensor(), vision.normalize])


@pytest.fixture
def own_folder(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the image {path} cannot be loaded: Empty input file"),
        (b"no image at all", "the image {path} cannot be loaded: Not a JPEG file"),
        (
            jpeg_of(small_photograph())[:-4000],
            "an image of the data set cannot be loaded: {path}: the file ends too early, after",
        ),
    ],
)
def test_a_damaged_image_raises_in_its_batch_with_its_path(vision, own_folder, content, message):
    path = sorted((own_folder / "class0").iterdir())[5]
    path.write_bytes(content)
    dataset = vision.datasets.ImageFolder(own_folder, transform_of(vision))
    iterator = iter(HabanaDataLoader(dataset, batch_size=4, **PARAMETERS))
    sizes = [len(next(iterator)[1])]
    with pytest.raises(OSError) as raised:
        next(iterator)
    assert str(raised.value).startswith(message.format(path=path))
    assert "Remove it from the data set, or replace it." in str(raised.value)
    sizes += [len(targets) for _, targets in iterator]
    assert sizes == [4] * 9 + [2]


def test_a_missing_image_raises_with_its_path(vision, own_folder):
    dataset = vision.datasets.ImageFolder(own_folder, transform_of(vision))
    path = dataset.samples[0][0]
    os.unlink(path)
    with pytest.raises(OSError, match=f"the image {path} cannot be loaded"):
        next(iter(HabanaDataLoader(dataset, batch_size=4, **PARAMETERS)))


def test_images_of_a_batch_must_have_one_size(vision, folder):
    names = vision.transforms
    transform = names.Compose([names.Resize(40), names.ToTensor()])
    loader = HabanaDataLoader(
        vision.datasets.ImageFolder(folder, transform), batch_size=4, **PARAMETERS
    )
    with pytest.raises(RuntimeError, match="images of a batch must have one size"):
        next(iter(loader))


PROGRAM = """
import os, signal, sys, gc
import small_vision
from habana_dataloader import HabanaDataLoader, conditions
conditions.torchvision = small_vision
names = small_vision.transforms
transform = names.Compose([names.RandomResizedCrop(64), names.ToTensor()])
dataset = small_vision.datasets.ImageFolder(sys.argv[1], transform)
loader = HabanaDataLoader(dataset, batch_size=4, num_workers=8, pin_memory=True)
iterator = iter(loader)
next(iterator)
"""
ENDS = {
    "exit": ("print('end')", 0),
    "error": ("print('end'); raise SystemExit(3)", 3),
    "fork": (
        """
child = os.fork()
if child == 0:
    try:
        next(iterator)
    except RuntimeError as error:
        print(error, flush=True)
    del iterator
    gc.collect()
    os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
print(sum(1 for _ in iterator), 'end')
""",
        0,
    ),
    # All threads of the loader end with its iterator, also before its last batch.
    "threads": (
        """
def threads():
    return len(os.listdir('/proc/self/task'))
for _ in iterator:
    pass
before = threads()  # the device has its own threads from now on
iterator = iter(loader)
batch = next(iterator)
assert threads() > before
del iterator
gc.collect()
assert threads() == before, (threads(), before)
iterator = iter(loader)
for _ in iterator:
    pass
assert threads() == before, (threads(), before)
assert batch[0].cpu().isfinite().all()
print('end')
""",
        0,
    ),
    "interrupt": (
        """
class Interrupted:
    # Arrives in a wait for files, as Ctrl-C does.
    def __fspath__(self):
        os.kill(os.getpid(), signal.SIGINT)
        return '/dev/null'
try:
    dataset.samples = [(Interrupted(), 0)] * 42
    list(loader)
except KeyboardInterrupt:
    print('end')
""",
        0,
    ),
}


@pytest.mark.parametrize("way", ENDS)
def test_programs_end(folder, way):
    """Also those that end, fork or are interrupted while batches are being made."""
    code, status = ENDS[way]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM + code, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == status, done.stderr
    assert done.stdout.endswith("end\n"), (done.stdout, done.stderr)
    if way == "fork":
        assert "belongs to another process; make one with iter(loader)" in done.stdout
        assert "10 end" in done.stdout
