"""The distributions by which programs for Gaudi recognize Intel's package."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module

import pytest
from packaging.version import Version
from paths import ROOT
from processes import output_of

NAMES = ("habana-torch-plugin", "habana-torch-dataloader")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of the Python files alone, made by the project's own build backend."""
    folder = tmp_path_factory.mktemp("wheel")
    code = (
        "import sys; from scikit_build_core.build import build_wheel; "
        "print(build_wheel(sys.argv[1], {'wheel.cmake': 'false'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


@pytest.mark.parametrize("name", NAMES)
def test_a_distribution_is_found_and_says_whose_it_is(name):
    found = importlib.metadata.metadata(name)
    # vllm-gaudi compares with 1.22.0.494, optimum-habana with the release that it was tested with
    assert Version(found["Version"]) >= Version("1.24.1")
    assert "hpu_backend" in found["Summary"]
    assert "not Intel's distribution" in found.get_payload()


def test_pip_lists_them_as_programs_parse_it():
    # optimum-habana takes the last word of the first line that names the distribution.
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in listed.stdout.splitlines() if NAMES[0] in line]
    assert Version(lines[0].split()[-1]) >= Version("1.24.1")
    shown = subprocess.run(
        [sys.executable, "-m", "pip", "show", NAMES[0]], capture_output=True, text=True, check=True
    )
    found = re.search(r"Version:\s*(?P<version>.*)", shown.stdout)
    assert found
    assert found["version"] == lines[0].split()[-1]


def test_a_wheel_has_them_beside_its_own_metadata(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as content:
        # pip refuses a wheel with two folders of this form
        infos = {name.split("/")[0] for name in content.namelist() if ".dist-info/" in name}
        assert infos == {"hpu_backend-0.1.0.dist-info"}
    target = tmp_path / "packages"
    install = ["install", "-q", "--no-index", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    code = (
        "import importlib.metadata as m; "
        f"print(sorted(d.name for d in m.distributions(path=[r'{target}'])))"
    )
    assert output_of(code).stdout.strip() == str(sorted([*NAMES, "hpu_backend"]))
    record = next(target.glob("hpu_backend-*.dist-info/RECORD")).read_text()
    for name in NAMES:  # so that pip uninstall hpu_backend removes them
        assert f"{name.replace('-', '_')}-1.24.1.egg-info/PKG-INFO" in record
    assert os.access(target / "bin" / "hl-smi", os.X_OK)


def test_every_command_of_the_project_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, place in project["scripts"].items():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function)), name
