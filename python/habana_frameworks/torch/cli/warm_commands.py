"""hpu-compile warm, record, replay: compiles what a service needs before it starts."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import Any

from .daemon import daemon_client
from .errors import CommandError
from .progress import Progress
from .script import add_script_arguments, check_output, check_script, run_script
from .tables import size
from .values import parse_path, parse_positive


def add_warm_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("manifest", help="YAML file (docs/warmup.md)")
    what = command.add_mutually_exclusive_group()
    what.add_argument(
        "--plan", action="store_true", help="predict count, time and memory; compile nothing"
    )
    what.add_argument(
        "--execute", action="store_true", help="launch each program once, as a service will"
    )
    command.add_argument("--parallel", type=parse_positive, help="requests at the server at a time")
    command.add_argument(
        "--html", metavar="FILE", type=parse_path, help="write the report as a page"
    )


def add_replay_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("manifest", help="YAML file, of `record` or of `warm`")
    command.add_argument(
        "--html", metavar="FILE", type=parse_path, help="write the report as a page"
    )


def add_record_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", "--output", default="manifest.yaml", help="the manifest")
    add_script_arguments(command)


def warm(arguments: argparse.Namespace) -> dict[str, Any] | str:
    """Compiles every shape of a manifest; repeated, those that are missing. Exit code 0 means that
    all are there."""
    from ..warmup.manifest import read_manifest

    manifest = read_manifest(arguments.manifest)
    if arguments.plan:
        return _plan(manifest, arguments)
    return _run(manifest, arguments, arguments.parallel, arguments.execute, frozen=False)


def replay(arguments: argparse.Namespace) -> dict[str, Any] | str:
    """Checks that a store has every program of a manifest. It runs frozen, so that nothing is
    compiled."""
    from ..warmup.manifest import read_manifest

    return _run(read_manifest(arguments.manifest), arguments, None, launches=False, frozen=True)


def record(arguments: argparse.Namespace) -> dict[str, Any] | str:
    """Runs a script and writes a manifest of the graphs that it used, for `replay`."""
    from ..warmup.manifest import read_manifest
    from ..warmup.record import record

    check_script(arguments.script)
    check_output(arguments.output)
    what = " ".join([os.path.basename(arguments.script), *arguments.arguments])
    # With --json, standard output holds nothing but the answer.
    output = sys.stderr if arguments.json else sys.stdout
    with contextlib.redirect_stdout(output), record(arguments.output, what):
        run_script(arguments.script, arguments.arguments)
    try:
        graphs = len(read_manifest(arguments.output).recorded)
    except ValueError as error:
        raise CommandError(f"{what} has compiled no graph: {error}") from error
    if arguments.json:
        return {"manifest": arguments.output, "graphs": graphs}
    return f"{graphs} graphs in {arguments.output}\n"


def _plan(manifest: Any, arguments: argparse.Namespace) -> dict[str, Any] | str:
    import dataclasses

    import torch

    from ..warmup.plan import make_plan

    if arguments.parallel:
        manifest = dataclasses.replace(manifest, parallel=arguments.parallel)
    free_bytes = torch.get_device_module("hpu").mem_get_info()[0]
    plan = make_plan(manifest, daemon_client().stats(), free_bytes)
    if arguments.json:
        return plan.as_dict()
    if plan.problem:
        time = "no time is estimated where something is refused"
    elif plan.seconds is None:
        time = "the server has compiled nothing yet from which to estimate the time"
    else:
        time = (
            f"about {plan.seconds:.0f} s with an empty store, without launches "
            f"({plan.seconds_a_program:.1f} s a "
            f"program, as this server measured, {plan.parallel} at a time)"
        )
    print(f"{plan.shapes} shapes, {time}; {size(plan.free_bytes)} of device memory are free")
    for entry in plan.entries:
        if entry.largest is None:
            print(f"{entry.name}: {entry.shapes} shapes, refused")
            continue
        print(
            f"{entry.name}: {entry.shapes} shapes, weights {size(entry.weight_bytes)}, a call of "
            f"{entry.largest} at most {size(entry.call_bytes)}, inputs that wait meanwhile "
            f"{size(entry.waiting_bytes)}; {entry.making_seconds:.1f} s to make it, "
            f"{entry.first_trace_seconds:.1f} s to trace the first shape, "
            f"{entry.trace_seconds:.1f} s each other"
        )
    if plan.problem:
        raise CommandError(plan.problem)
    return ""


def _run(
    manifest: Any,
    arguments: argparse.Namespace,
    parallel: int | None,
    launches: bool,
    frozen: bool,
) -> dict[str, Any] | str:
    from ..warmup.entries import Models, rows_of
    from ..warmup.run import WarmUp

    if arguments.html and not os.access(arguments.html.resolve().parent, os.W_OK):
        raise CommandError(f"cannot write {arguments.html}")
    models = Models(manifest, frozen)
    with Progress(arguments.command) as bar, contextlib.redirect_stdout(sys.stderr):
        work = WarmUp(
            models.call,
            rows_of(manifest),
            lambda progress: bar(progress.done, progress.total, f"{arguments.command}: {progress}"),
            parallel or manifest.parallel,
            launches,
        )
        try:
            report = work.run()
        except KeyboardInterrupt:
            report = work.report("it was interrupted")
    if arguments.html:
        arguments.html.write_text(report.to_html(), encoding="utf-8")
    problem = "" if report.complete else f"{report.failed} failed, {report.left} left"
    if report.left:
        problem += "; the same command goes on where this one ended"
    if arguments.json:
        return report.as_dict() | ({"problem": problem} if problem else {})
    print(report.table(), end="")
    if problem:
        raise CommandError(problem)
    return ""
