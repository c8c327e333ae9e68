"""Programs in torch.compiler's cache artifacts, and the settings of Inductor's remote cache."""

from __future__ import annotations

import json

import pytest
from conftest import stop_daemon
from processes import output_of

SCRIPT = """
import sys, json, logging, torch, habana_frameworks.torch
logging.basicConfig(level=logging.WARNING)
from habana_frameworks.torch.dynamo import report
if sys.argv[1] == "load":
    info = torch.compiler.load_cache_artifacts(open(sys.argv[2], "rb").read())
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()).to("hpu")
compiled = torch.compile(model, backend="hpu_backend")
with torch.no_grad():
    for rows in (2, 3):
        compiled(torch.ones(rows, 4, device="hpu"))
if sys.argv[1] == "save":
    data, info = torch.compiler.save_cache_artifacts()
    open(sys.argv[2], "wb").write(data)
print(json.dumps({
    "origins": [g.origin for g in report().graphs],
    "keys": [g.front_end_key for g in report().graphs],
    "artifacts": sorted(info.artifacts.get("hpu_program", [])) if sys.argv[1] != "run" else [],
}))
"""


@pytest.fixture
def run(private_cache, tmp_path):
    """A process of its own: run(what, folder of the daemon) returns its answer and its standard
    error."""
    folders = []

    def process(what: str, folder: str, **environment: str):
        folders.append(private_cache / folder)
        cache = str(private_cache / folder)
        artifacts = str(tmp_path / "artifacts")
        done = output_of(SCRIPT, what, artifacts, HPU_CACHE_DIR=cache, **environment)
        return json.loads(done.stdout.splitlines()[-1]), done.stderr

    yield process
    for folder in folders:
        stop_daemon(folder)


def test_artifacts_carry_programs_to_a_store_that_trusts_their_signer(run, private_cache, tmp_path):
    saved, _ = run("save", "first")
    assert saved["origins"] == ["compiled", "compiled"]
    assert saved["artifacts"] == sorted(saved["keys"])

    # The artifacts of another user, who trusts the first one's daemon.
    trusted = tmp_path / "trusted"
    trusted.mkdir()
    key = (private_cache / "first" / "store" / "signing.pub").read_bytes()
    (trusted / "first.pub").write_bytes(key)
    config = tmp_path / "daemon.toml"
    config.write_text(f'trusted-keys = "{trusted}"\n')
    loaded, _ = run("load", "second", HPU_COMPILE_SERVER_CONFIG=str(config))
    assert loaded["origins"] == ["store", "store"]
    assert loaded["artifacts"] == saved["artifacts"]

    # And those of a user who does not: a message is logged, and the graph is compiled.
    refused, errors = run("load", "third")
    assert refused["origins"] == ["compiled", "compiled"]
    assert "was not loaded: manifest is signed by key" in errors


def test_inductors_redis_settings_are_answered_with_a_sentence(run):
    environment = {"TORCHINDUCTOR_REDIS_HOST": "redis.example", "TORCHINDUCTOR_REDIS_PORT": "6379"}
    answer, errors = run("run", "redis", **environment)
    assert answer["origins"] == ["compiled", "compiled"]
    sentence = (
        "remote cache would use the Redis of TORCHINDUCTOR_REDIS_HOST and TORCHINDUCTOR_REDIS_PORT;"
    )
    assert errors.count(sentence) == 1
    assert "hpu-compile serve --redis HOST:PORT" in errors
