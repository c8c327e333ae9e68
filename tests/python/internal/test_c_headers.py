"""A program in C++11 builds against the installed headers and library, as hccl_demo does."""

from __future__ import annotations

import subprocess

import pytest

from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir

PROGRAM = """
#include <hccl.h>
#include <synapse_api.h>
#include <cstdio>
int main() {
  int version = 0;
  synDeviceId device = 0;
  if (synInitialize() != synSuccess || synDeviceAcquire(&device, nullptr) != synSuccess) return 1;
  char text[16] = "x";
  if (synConfigurationGet("HCCL_GAUDI_DIRECT", text, sizeof(text)) != synSuccess) return 2;
  hcclUniqueId id = {};
  hcclComm_t comm = nullptr;
  if (hcclGetUniqueId(&id) != hcclSuccess) return 3;
  if (hcclCommInitRank(&comm, 1, id, 0) != hcclSuccess) return 4;
  hcclGetVersion(&version);
  std::printf("%d [%s]\\n", version, text);
  return hcclCommDestroy(comm);
}
"""


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_a_program_builds_and_runs(tmp_path, standard):
    source, program = tmp_path / "program.cc", tmp_path / "program"
    source.write_text(PROGRAM)
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    folders = ["-I", get_include_dir(), "-L", get_lib_dir(), f"-Wl,-rpath,{get_lib_dir()}"]
    subprocess.run(["g++", *flags, source, "-o", program, *folders, "-lSynapse"], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "2604 []\n"
