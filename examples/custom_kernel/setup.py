"""Builds the operators and their kernels:  python setup.py build_ext --inplace"""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir

FOLDER = Path(__file__).resolve().parent


class BuildWithKernels(BuildExtension):
    def run(self) -> None:
        super().run()
        folder = FOLDER if self.inplace else Path(self.build_lib)
        compiler = sysconfig.get_config_var("CC").split()[0]
        source, library = FOLDER / "soft_clip_kernels.c", folder / "libsoft_clip_kernels.so"
        options = ["-O2", "-shared", "-fPIC", "-I", get_include_dir()]
        subprocess.run([compiler, *options, str(source), "-o", str(library), "-lm"], check=True)


setup(
    name="soft_clip_ops",
    ext_modules=[
        CppExtension(
            "soft_clip_ops",
            [str(FOLDER / "soft_clip_ops.cc")],
            include_dirs=[get_include_dir()],
            library_dirs=[get_lib_dir()],
            libraries=["habana_pytorch2_plugin"],
        )
    ],
    cmdclass={"build_ext": BuildWithKernels},
)
