"""distributed.hccl.initialize_distributed_hpu: OUT-6, bridge.md section 3."""

from __future__ import annotations

import importlib
import os

import pytest
from processes import output_of

NAMES = [
    *("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "ID"),
    *("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    *("HLS_MODULE_ID", "HABANA_VISIBLE_MODULES"),
]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """An environment without a launcher's variables; variables that a test sets are removed after
    it."""
    kept = {name: value for name, value in os.environ.items() if name not in NAMES}
    monkeypatch.setattr(os, "environ", kept)
    return kept


@pytest.fixture
def hccl(environment):
    """The module; its first import writes to the environment of this test, not of the session."""
    module = importlib.import_module("habana_frameworks.torch.distributed.hccl")
    for name in NAMES:
        environment.pop(name, None)
    return module


def set_names(environment):
    return {name: environment[name] for name in NAMES if name in environment}


def test_without_a_launcher(environment, hccl):
    assert hccl.initialize_distributed_hpu() == (1, -1, -1)
    assert set_names(environment) == {"MASTER_ADDR": "localhost", "MASTER_PORT": "12345"}


def test_given_values_are_set(environment, hccl):
    assert hccl.initialize_distributed_hpu(world_size=4, rank=3, local_rank=1) == (4, 3, 1)
    assert set_names(environment) == {
        "WORLD_SIZE": "4",
        "RANK": "3",
        "LOCAL_RANK": "1",
        "HLS_MODULE_ID": "1",
        "ID": "3",
    }


def test_torchrun_counts_before_open_mpi(environment, hccl):
    environment.update(WORLD_SIZE="2", RANK="1", LOCAL_RANK="1", OMPI_COMM_WORLD_SIZE="8")
    environment.update(OMPI_COMM_WORLD_RANK="7", OMPI_COMM_WORLD_LOCAL_RANK="7")
    assert hccl.initialize_distributed_hpu() == (2, 1, 1)
    assert "MASTER_PORT" not in environment


def test_open_mpi(environment, hccl):
    environment.update(OMPI_COMM_WORLD_SIZE="8", MASTER_ADDR="10.0.0.1")
    environment.update(OMPI_COMM_WORLD_RANK="5", OMPI_COMM_WORLD_LOCAL_RANK="1")
    assert hccl.initialize_distributed_hpu(world_size=8) == (8, 5, 1)
    assert (environment["RANK"], environment["MASTER_ADDR"]) == ("5", "10.0.0.1")
    assert environment["MASTER_PORT"] == "12345"


@pytest.mark.parametrize(
    ("given", "module"),
    [
        ({"HABANA_VISIBLE_MODULES": "6,3"}, "3"),
        ({"HABANA_VISIBLE_MODULES": "6,3", "HLS_MODULE_ID": "0"}, "0"),
        ({}, "1"),
    ],
)
def test_card_of_a_rank(environment, given, module, hccl):
    environment.update(given)
    hccl.initialize_distributed_hpu(2, 1, 1)
    assert environment["HLS_MODULE_ID"] == module


def test_one_rank_takes_any_card(environment, hccl):
    hccl.initialize_distributed_hpu(1, 0, 0)
    assert "HLS_MODULE_ID" not in environment


def test_rank_without_a_card(environment, hccl):
    environment["HABANA_VISIBLE_MODULES"] = "6,3"
    with pytest.raises(RuntimeError, match="local rank 2 has no card: HABANA_VISIBLE_MODULES=6,3"):
        hccl.initialize_distributed_hpu(4, 2, 2)


def test_import_sets_the_environment_up():
    code = (
        "import os\n"
        "import habana_frameworks.torch.distributed.hccl\n"
        "print(os.environ['RANK'], os.environ['HLS_MODULE_ID'])\n"
    )
    mpi = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}
    done = output_of(code, OMPI_COMM_WORLD_LOCAL_RANK="1", **mpi)
    assert done.stdout.split() == ["1", "1"]
