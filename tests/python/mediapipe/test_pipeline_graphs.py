"""Graphs: readers and functions of the user's, iterators, queues, and what is refused."""

from __future__ import annotations

import math
import multiprocessing
import re

import numpy as np
import pytest
import torch
from media_pipelines import Pipeline, drain
from photograph_folders import photograph_folder  # noqa: F401  fixture

from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.media_types import (
    dtype,
    ftype,
    imgtype,
    randomCropType,
    readerOutType,
)
from habana_frameworks.mediapipe.operators.cpu_nodes.cpu_nodes import media_function
from habana_frameworks.mediapipe.operators.reader_nodes.read_image_from_dir import get_max_file
from habana_frameworks.mediapipe.operators.reader_nodes.reader_nodes import (
    media_ext_reader_op_impl,
    media_ext_reader_op_tensor_info,
)
from habana_frameworks.mediapipe.pipeline.operator import REQUIRED, Operator
from habana_frameworks.mediapipe.plugins.iterator_pytorch import (
    HPUGenericPytorchIterator,
    HPUResnetPytorchIterator,
)


class Listing(media_ext_reader_op_impl):
    """A reader of the user's: files, and their numbers in rows of three."""

    output_type = readerOutType.FILE_LIST

    def __init__(self, params, fw_params):
        self.paths = params["priv_params"]["paths"]
        self.asked = params["priv_params"].setdefault("asked", [])
        self.batch_size = fw_params.batch_size
        assert fw_params.queue_depth == 3

    def __len__(self):
        return math.ceil(len(self.paths) / self.batch_size)

    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        if self.at >= len(self.paths):
            raise StopIteration
        paths = self.paths[self.at : self.at + self.batch_size]
        self.asked.append(self.at)
        self.at += self.batch_size
        return paths, np.arange(self.batch_size)[:, None] + [[self.at, 0, 1]]

    def gen_output_info(self):
        size = np.array([self.batch_size], np.uint32)
        return [
            media_ext_reader_op_tensor_info(dtype.NDT, size, ""),
            media_ext_reader_op_tensor_info("uint32", np.array([3, self.batch_size]), ""),
        ]

    def get_largest_file(self):
        return get_max_file(self.paths)

    def get_media_output_type(self):
        return self.output_type


class External(Pipeline):
    reader = Listing

    def definegraph(self):
        self.private = {"paths": [str(path) for path in sorted(self.folder.rglob("*.jp*"))[:10]]}
        jpegs, numbers = fn.MediaExtReaderOp(
            impl=self.reader, num_outputs=2, priv_params=self.private
        )()
        return fn.ImageDecoder(resize=[16, 16])(jpegs), numbers


def external(folder, **options):
    return External(folder, **{"batch_size": 4, "prefetch_depth": 3, **options})


def test_a_reader_of_the_users(folder):
    iterator = HPUGenericPytorchIterator(mediapipe=external(folder, device="hpu"))
    assert len(iterator) == 3
    for _ in range(2):
        batches = list(iterator)
        assert [numbers.tolist()[0] for _, numbers in batches] == [[4, 0, 1], [8, 0, 1], [12, 0, 1]]
        images, numbers = batches[2]
        assert (numbers.dtype, numbers.device.type) == (torch.int32, "hpu")
        assert torch.equal(images[1], images[2])  # a batch that is not full repeats its last file
        assert not torch.equal(images[0], images[1])


def test_batches_are_made_ahead(folder):
    pipe = external(folder)
    pipe.build()
    pipe.iter_init()
    assert pipe.private["asked"] == [0, 4, 8]
    for _ in range(3):
        pipe.run()
    with pytest.raises(StopIteration):
        pipe.run()
    assert pipe.private["asked"] == [0, 4, 8]
    pipe.iter_init()
    pipe.run()
    pipe.iter_init()  # what is left is dropped
    assert [outputs[1][0, 0].item() for outputs in [tuple(t.tensor for t in pipe.run())]] == [4]


class Opened:
    """A step that is done when it has been waited for, or at once."""

    def __init__(self, done):
        self._done = done

    def done(self):
        return self._done

    def wait(self):
        self._done = True


class Gate(Operator):
    """Its first batch is done last."""

    def evaluate(self, run, *inputs):
        yield Opened(done=run.number > 0)
        return inputs


class Recorder(Operator):
    ARGUMENTS = {"numbers": REQUIRED}

    def compute(self, run, value):
        self.arguments.numbers.append(run.number)
        return value


def test_calls_of_an_operator_begin_in_the_order_of_batches(folder):
    numbers = []

    class Ordered(Pipeline):
        def definegraph(self):
            _, labels = fn.ReadImageDatasetFromDir(dir=str(folder))()
            return Recorder(numbers=numbers)(Gate()(labels))

    pipe = Ordered(batch_size=14, prefetch_depth=3)
    pipe.build()
    pipe.iter_init()
    assert numbers == []  # the second and third batch wait for the first one
    pipe.run()
    assert numbers == [0, 1, 2]
    pipe.close()


def test_a_pipeline_that_goes_away_writes_nothing_more(folder):
    for _ in range(10):
        pipe = external(folder)
        pipe.build()
        pipe.iter_init()
        pipe.run()
        del pipe


def test_the_resnet_iterator_gives_labels_for_losses(folder):
    class Labels(Pipeline):
        def definegraph(self):
            paths = [str(path) for path in sorted(folder.rglob("*.*"))]
            jpegs, labels = fn.ReadImageDatasetFromDir(
                file_list=paths,
                class_list=["class2", "class1", "class0"],
                file_classes=[path.split("/")[-2] for path in paths],
                shuffle=False,
                label_dtype=dtype.UINT32,
            )()
            return fn.ImageDecoder(output_format=imgtype.RGB_P, resize=[8, 8])(jpegs), labels

    iterator = HPUResnetPytorchIterator(mediapipe=Labels(batch_size=21, device="hpu:0"))
    batches = list(iterator)
    labels = torch.cat([labels.cpu() for _, labels in batches])
    assert labels.dtype == torch.int64
    assert labels.tolist() == [2] * 14 + [1] * 14 + [0] * 14
    logits = batches[0][0].float().flatten(1)[:, :3]
    assert torch.nn.functional.cross_entropy(logits, batches[0][1]).isfinite()


class Doubled(media_function):
    def __init__(self, params):
        assert params["unique_number"] > 0
        self.seed = params["seed"]

    def __call__(self, *inputs):
        return inputs[0] * 2 + self.seed


def test_functions_take_inputs_and_outputs_are_numpys(folder):
    class Numbers(Pipeline):
        def definegraph(self):
            _, labels = fn.ReadImageDatasetFromDir(dir=str(folder), shuffle=False)()
            func = fn.MediaFunc(func=Doubled, shape=[3, 2], dtype=dtype.UINT16, seed=7)
            return func(labels), labels

    pipe = Numbers(batch_size=6, device="hpu")
    pipe.build()
    pipe.iter_init()
    doubled, labels = pipe.run()
    assert doubled.as_cpu().as_nparray().dtype == np.uint16
    assert doubled.as_nparray().tolist() == [[7, 7, 7], [7, 7, 7]]
    assert labels.as_nparray().dtype == np.uint64
    assert labels.shape == (6,)
    assert pipe.get_tensor(labels.dev_addr).dtype == torch.int64
    assert (pipe.getBatchSize(), pipe.getNumBatches()) == (6, 7)
    with pytest.raises(KeyError, match="has no output at 0x1"):
        pipe.get_tensor(1)


def failing_child(pipe, texts):
    try:
        pipe.run()
    except RuntimeError as error:
        texts.put(str(error))


def test_a_forked_child_has_no_pipeline(folder):
    pipe = external(folder)
    pipe.build()
    pipe.iter_init()
    context = multiprocessing.get_context("fork")
    texts = context.SimpleQueue()
    child = context.Process(target=failing_child, args=(pipe, texts))
    child.start()
    assert (
        texts.get() == "this media pipeline belongs to another process; build one in each process"
    )
    child.join(30)
    assert child.exitcode == 0
    assert len(pipe.run()) == 2


REFUSED = {
    "not built": (
        lambda: fn.Hue(degree=1),
        NotImplementedError,
        "fn.Hue is not built: call PyTorch's operators on the batches, which are tensors of hpu",
    ),
    "media engine": (
        lambda: fn.VideoDecoder(),
        NotImplementedError,
        "fn.VideoDecoder is not built: it runs on the card's media engine, and the emulated device "
        "has none",
    ),
    "unknown": (lambda: fn.Nothing, AttributeError, "has no operator 'Nothing'"),
    "argument": (
        lambda: fn.CoinFlip(chance=1),
        TypeError,
        "fn.CoinFlip has no argument 'chance'; it has device, seed, dtype",
    ),
    "lacking": (lambda: fn.Crop(crop_w=1), TypeError, "fn.Crop needs the argument 'crop_h'"),
    "value": (
        lambda: fn.ImageDecoder(resampling_mode=ftype.SPLINE),
        NotImplementedError,
        "fn.ImageDecoder is not built for resampling_mode=5; it is for 3, 4, 1, 6, 2",
    ),
    "format": (
        lambda: fn.ReadImageDatasetFromDir(dir="x", format="png"),
        NotImplementedError,
        "fn.ReadImageDatasetFromDir is not built for format='png'",
    ),
    "inputs": (
        lambda: fn.RandomFlip(horizontal=1)(fn.Constant(constant=1)()),
        TypeError,
        "fn.RandomFlip takes 2 inputs and was called with 1",
    ),
    "constant": (
        lambda: fn.CoinFlip()(0.5),
        TypeError,
        "input 0 of fn.CoinFlip must be an output of an operator and is a float; constants are "
        "made by fn.MediaConst",
    ),
    "window": (
        lambda: fn.Crop(crop_w=1, crop_h=1, crop_pos_x=2),
        ValueError,
        "fn.Crop needs sizes of at least 1 and positions from 0 to 1",
    ),
    "crop without size": (
        lambda: fn.ImageDecoder(random_crop_type=randomCropType.CENTER_CROP),
        ValueError,
        "fn.ImageDecoder needs resize where random_crop_type is given",
    ),
    "device": (
        lambda: Pipeline(device="gpu"),
        ValueError,
        "must be one of ('cpu', 'hpu', 'mixed', 'legacy') and is 'gpu'",
    ),
    "not built yet": (
        lambda: Pipeline().run(),
        RuntimeError,
        "call build() of Pipeline first",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_sentence(name):
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=re.escape(text)):
        call()


def test_a_list_of_files_is_no_output(folder):
    class Files(Pipeline):
        def definegraph(self):
            return fn.ReadImageDatasetFromDir(dir=str(folder))()

    with pytest.raises(TypeError, match="is a list of files; return from definegraph"):
        drain(Files())


def test_images_without_one_size_are_refused(folder):
    class Sizes(Pipeline):
        def definegraph(self):
            jpegs, _ = fn.ReadImageDatasetFromDir(dir=str(folder))()
            return fn.ImageDecoder()(jpegs)

    with pytest.raises(ValueError, match=r"images of a batch must have one size: .* resize"):
        drain(Sizes(batch_size=2))


class Buffers(Listing):
    """Bytes of files, with zeros behind them."""

    output_type = readerOutType.BUFFER_LIST

    def __next__(self):
        paths, numbers = super().__next__()
        return [np.pad(np.fromfile(path, np.uint8), (0, 37)) for path in paths], numbers


def test_a_reader_of_the_users_may_give_bytes(folder):
    class Twice(External):
        reader = Buffers

        def definegraph(self):
            images, numbers = super().definegraph()
            jpegs = images.call.inputs[0]
            return images, numbers, fn.ImageDecoder(resize=[8, 8])(jpegs)

    small = drain(Twice(folder, batch_size=4, prefetch_depth=3))
    for (images, numbers), (bytes_, same, half) in zip(drain(external(folder)), small, strict=True):
        assert torch.equal(images, bytes_) and torch.equal(numbers, same)
        assert half.shape == (4, 8, 8, 3) and half.float().std() > 1


def test_bytes_that_are_no_image_are_counted(folder):
    class Broken(Buffers):
        def __next__(self):
            contents, numbers = super().__next__()
            return [contents[0], contents[1][:300], contents[0]], numbers

    pipe = external(folder)
    pipe.reader = Broken
    with pytest.raises(OSError, match="cannot be loaded: image 1 of batch 0: "):
        drain(pipe)


def test_a_reader_of_addresses_is_refused(folder):
    class Addresses(Listing):
        output_type = readerOutType.ADDRESS_LIST

    pipe = external(folder)
    pipe.reader = Addresses
    with pytest.raises(NotImplementedError, match="or BUFFER_LIST, and Addresses has another one"):
        pipe.build()
