"""Runs the steps of a plan: one process each, with the cache folders that the contender's name
promises."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import Run
from plan import GEMM_BOUND_TRAINING, Step

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 1800
# Contenders for which the start is the figure, not the steady state.
FLOORS = ("dynamo only", "aot_eager")
# Sections whose processes run training.py.
TRAINING = ("training", "optimizer")
_PROBES = {
    "hpu peak": "peak",
    "hpu fetch": "fetch",
    "hpu overhead": "overhead",
    "hpu memory": "memory",
    "inductor memory": "inductor-memory",
}


def read_figures(stdout: str, stderr: str, code: int) -> Run:
    """The figures that a process printed, or {"failure": its last line}."""
    for line in stdout.splitlines():
        if line.startswith("FIGURES "):
            figures: Run = json.loads(line.removeprefix("FIGURES "))
            return figures
    lines = (stderr or stdout).strip().splitlines()
    return {"failure": lines[-1] if lines else f"exit code {code}"}


class Runner:
    """Runs the steps with cache folders under `base`; a warm contender keeps its folder for the
    whole run.

    seconds: steady state per process.
    """

    def __init__(self, base: Path, seconds: float) -> None:
        self.base = base
        self.seconds = seconds
        self.store = base / "hpu-store"
        self.store.mkdir()
        self._primed: set[tuple[bool, str]] = set()

    # --- folders and processes ---------------------------------------------------------------

    def _fresh(self, kind: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=kind + "-", dir=self.base))

    def _kept(self, step: Step, kind: str) -> Path:
        folder = self.base / f"{step.row} {kind}".replace(" ", "-")
        folder.mkdir(exist_ok=True)
        return folder

    def _process(self, command: list[str], env: dict[str, str], autoload: bool = False) -> Run:
        """autoload: PyTorch loads the package as it does for users. Other contenders run without
        it."""
        try:
            done = subprocess.run(
                [sys.executable, *command],
                env={**env, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if autoload else "0"},
                cwd=self.base,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"failure": f"more than {TIMEOUT_S} s"}
        return read_figures(done.stdout, done.stderr, done.returncode)

    def _contender(
        self,
        name: str,
        step: Step,
        caches: dict[str, str],
        *extra: str,
        seconds: float | None = None,
        env: dict[str, str] | None = None,
    ) -> Run:
        if seconds is None:
            seconds = 0 if name in FLOORS else self.seconds
        script = "training.py" if step.section in TRAINING else "contender.py"
        command = [str(HERE / script), name, step.case, "--dtype", step.dtype]
        command += ["--seconds", str(seconds), *extra]
        return self._process(command, {**(os.environ if env is None else env), **caches})

    # --- the store ---------------------------------------------------------------------------

    def _daemon_runs(self, cache: Path) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(cache / "run" / "server.sock"))
            except OSError:
                return False
        return True

    def _ensure_daemon(self, cache: Path) -> None:
        if not self._daemon_runs(cache):
            self._cli(cache, "stats")

    def stop_daemon(self, cache: Path) -> None:
        if self._daemon_runs(cache):
            self._cli(cache, "stop")

    def _cli(self, cache: Path, command: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "habana_frameworks.torch.cli", command],
            env={**os.environ, "HPU_CACHE_DIR": str(cache)},
            capture_output=True,
            timeout=120,
            check=False,
        )

    def _prime_store(self, step: Step) -> dict[str, str]:
        """The environment of a process that finds the case's program in the store."""
        caches = {"HPU_CACHE_DIR": str(self.store)}
        program = (step.section in TRAINING, step.row)
        if program not in self._primed and step.section != "overhead":
            self._contender("hpu cold", step, caches, seconds=0)
            self._primed.add(program)
        self._ensure_daemon(self.store)
        return caches

    def _prime_inductor(self, step: Step) -> tuple[Path, Path]:
        """Inductor's cache folder after one process on this host, and its mega-cache artifacts."""
        kept = self._kept(step, "inductor-warm")
        artifacts = kept / "mega-cache"
        if not artifacts.exists():
            caches = {"TORCHINDUCTOR_CACHE_DIR": str(kept)}
            save = ("--save-mega-cache", str(artifacts))
            self._contender("inductor", step, caches, *save, seconds=0)
        return kept, artifacts

    # --- sections ----------------------------------------------------------------------------

    def run(self, step: Step) -> Run:
        if step.contender in _PROBES:
            return self._probe(step)
        if step.section == "container":
            return self._container(step)
        return self._training(step) if step.section in TRAINING else self._model(step)

    def _probe(self, step: Step) -> Run:
        command = [str(HERE / "probe.py"), _PROBES[step.contender], step.case]
        command += ["--dtype", step.dtype]
        if step.contender == "inductor memory":
            kept, _ = self._prime_inductor(step)
            caches = {"TORCHINDUCTOR_CACHE_DIR": str(kept)}
        else:
            caches = self._prime_store(step)
        # A package that is imported after PyTorch looks through everything that was registered
        # before, once in a process, when it makes its first key.
        autoload = step.contender == "hpu fetch"
        return self._process(command, {**os.environ, **caches}, autoload)

    def _reference(self, step: Step) -> str:
        file = self._kept(step, "reference") / "outputs.pt"
        if not file.exists():
            self._contender("reference", step, {}, "--reference", str(file))
        return str(file)

    def _model(self, step: Step) -> Run:
        name = step.contender
        compare = ("--reference", self._reference(step))
        if name == "hpu cold":
            return self._cold(step, "--sizes", *compare)
        if name == "hpu warm":
            return self._contender(name, step, self._prime_store(step), *compare)
        if name == "inductor warm":
            folder, _ = self._prime_inductor(step)
        elif name in ("inductor freezing", "inductor max-autotune"):
            # The figure of these is the steady state; from the second round on they may start warm.
            folder = self._kept(step, name)
        else:
            folder = self._fresh("inductor")
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder)}
        if name == "inductor mega-cache":
            caches["MEGA_CACHE_FILE"] = str(self._prime_inductor(step)[1])
        return self._contender(name, step, caches, *compare)

    def _cold(self, step: Step, *extra: str) -> Run:
        cache = self._fresh("hpu")
        try:
            return self._contender("hpu cold", step, {"HPU_CACHE_DIR": str(cache)}, *extra)
        finally:
            self.stop_daemon(cache)
            shutil.rmtree(cache, ignore_errors=True)

    def _training(self, step: Step) -> Run:
        if step.contender == "hpu cold":
            peak = ("--peak",) if step.case in GEMM_BOUND_TRAINING else ()
            return self._cold(step, *peak)
        if step.contender == "hpu warm":
            return self._contender(step.contender, step, self._prime_store(step))
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(self._fresh("inductor"))}
        return self._contender(step.contender, step, caches)

    def _container(self, step: Step) -> Run:
        """Runs in an environment of its own: an empty home, and nothing on PATH unless Inductor
        needs it."""
        name = step.contender
        home = self._fresh("home")
        empty = self._fresh("path")
        env = {"HOME": str(home), "TMPDIR": str(self._fresh("tmp")), "PATH": str(empty)}
        if name.startswith("inductor"):
            _, artifacts = self._prime_inductor(step)
            caches = {"MEGA_CACHE_FILE": str(artifacts)}
            if name == "inductor mega-cache":
                env["PATH"] = os.environ["PATH"]
            return self._contender("inductor mega-cache", step, caches, seconds=0, env=env)
        if name == "dynamo only":
            return self._contender(name, step, {}, env=env)
        caches = self._prime_store(step)
        if name == "hpu shared store":
            self.stop_daemon(self.store)
        figures = self._contender("hpu warm", step, caches, seconds=0, env=env)
        found = figures.get("mapped_compilers", []) + figures.get("compilers_on_path", [])
        if found:
            return {"failure": f"a compiler was there: {', '.join(found)}"}
        return figures
