"""The manifests are checked with Kubernetes' own schema, and their arguments are given to the
server."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployed_server import (
    DEPLOYMENT,
    Folders,
    Server,
    check,
    free_port,
    scrape,
)

from habana_frameworks.torch import native

kubernetes_validate = pytest.importorskip(
    "kubernetes_validate", reason="no kubernetes-validate: dependencies/requirements-dev.txt"
)

_FOLDER = DEPLOYMENT / "kubernetes"


@cache
def _manifests() -> list[dict[str, Any]]:
    files = sorted(_FOLDER.glob("*.yaml"))
    return [made for file in files for made in yaml.safe_load_all(file.read_text())]


def _one(kind: str, name: str) -> dict[str, Any]:
    (found,) = [m for m in _manifests() if (m["kind"], m["metadata"]["name"]) == (kind, name)]
    return found


def _server() -> tuple[dict[str, Any], dict[str, Any]]:
    """The stateful set's specification and its container."""
    spec = _one("StatefulSet", "hpu-compile-server")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    return spec, container


def _entry_point() -> list[str]:
    text = (DEPLOYMENT / "container/Containerfile").read_text().replace("\\\n", " ")
    return yaml.safe_load(re.search(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE).group(1))


def _argument(name: str) -> str:
    (value,) = [a.split("=", 1)[1] for a in _server()[1]["args"] if a.startswith(f"--{name}=")]
    return value


@pytest.mark.parametrize("file", sorted(_FOLDER.glob("*.yaml")), ids=lambda file: file.name)
def test_schema(file):
    for manifest in yaml.safe_load_all(file.read_text()):
        kubernetes_validate.validate(manifest, "1.37", strict=True)


def test_pods_run_with_as_little_as_they_need():
    pods = [
        _server()[0]["template"]["spec"],
        _one("Job", "hpu-trainer")["spec"]["template"]["spec"],
    ]
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"requests", "limits"} <= set(container["resources"])
    containerfile = (DEPLOYMENT / "container/Containerfile").read_text()
    user = pods[0]["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}" in containerfile
    # Kubernetes makes volumes accessible to a group, and a signing key with such access is refused.
    assert pods[0]["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def test_names_and_times_fit():
    spec, container = _server()
    pod = spec["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > int(_argument("stop-grace")) + 10
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    for kind, name, path in (
        ("Service", "hpu-compile-server", ["selector"]),
        ("Service", spec["serviceName"], ["selector"]),
        ("PodDisruptionBudget", "hpu-compile-server", ["selector", "matchLabels"]),
        ("NetworkPolicy", "hpu-compile-server", ["podSelector", "matchLabels"]),
    ):
        selector = _one(kind, name)["spec"]
        for step in path:
            selector = selector[step]
        assert selector == labels, (kind, name)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert _argument("listen").endswith(f":{ports['grpc-tls']}")
    assert _argument("metrics").endswith(f":{ports['metrics']}")
    claims = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    for own_pod, more in (
        (pod, claims),
        (_one("Job", "hpu-trainer")["spec"]["template"]["spec"], set()),
    ):
        volumes = {volume["name"]: volume for volume in own_pod["volumes"]}
        for mount in own_pod["containers"][0]["volumeMounts"]:
            assert mount["name"] in set(volumes) | more
        for volume in volumes.values():
            if "secret" in volume:
                _one("Secret", volume["secret"]["secretName"])
            if "configMap" in volume:
                _one("ConfigMap", volume["configMap"]["name"])


def _mounted(folder: Path, files: dict[str, str]) -> None:
    """Lays the files out as the kubelet does for a Secret or a ConfigMap: links to links."""
    version = folder / "..2026_01_01"
    version.mkdir(parents=True)
    for name, text in files.items():
        (version / name).write_text(text)
        (version / name).chmod(0o440)  # the volumes' defaultMode
        (folder / name).symlink_to(f"..data/{name}")
    (folder / "..data").symlink_to(version.name)


def test_the_arguments_start_a_server_that_the_probes_find(tmp_path):
    folders = Folders(tmp_path)
    certificate = folders.make_certificate()
    _mounted(
        folders.configuration / "mounted-tls",
        {
            "tls.crt": certificate.read_text(),
            "tls.key": certificate.with_suffix(".key").read_text(),
        },
    )
    callers = _one("Secret", "hpu-compile-server-callers")["stringData"]["callers"]
    _mounted(folders.configuration / "mounted-callers", {"callers": callers})
    keys = folders.configuration / "keys"
    keys.rmdir()
    _mounted(keys, {"hpu-compile-server-1.pub": "a public key has 32 bytes, so so"})
    _, container = _server()
    command = [
        folders.here(word)
        .replace(f"{folders.configuration}/tls/", f"{folders.configuration}/mounted-tls/")
        .replace(f"{folders.configuration}/callers/", f"{folders.configuration}/mounted-callers/")
        for word in [*_entry_point(), *container["args"]]
    ]
    done = check(command)
    assert (done.returncode, done.stdout) == (0, "the options are good\n"), done.stderr
    # The ports of a cluster may be in use on this host.
    ports = {port["name"]: free_port() for port in container["ports"]}
    for port in container["ports"]:
        command = [
            re.sub(
                rf"0\.0\.0\.0:{port['containerPort']}$", f"127.0.0.1:{ports[port['name']]}", word
            )
            for word in command
        ]
    server = Server(command, tmp_path)
    for probe in ("startupProbe", "livenessProbe"):
        page = container[probe]["httpGet"]
        assert "hpu_build_info" in scrape(ports[page["port"]], page["path"])
    assert container["readinessProbe"]["tcpSocket"]["port"] in ports
    assert server.stop() == 0


def test_the_client_s_configuration_is_one_of_a_daemon(tmp_path):
    folders = Folders(tmp_path)
    text = _one("ConfigMap", "hpu-compile-client")["data"]["client.toml"]
    config = tmp_path / "client.toml"
    config.write_text(text)
    (container,) = _one("Job", "hpu-trainer")["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    for path in [environment["HPU_COMPILE_SERVER_CONFIG"], *re.findall(r'"(/.+)"', text)]:
        assert any(path.startswith(mount) for mount in mounts), path
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    certificate = folders.make_certificate().read_text()
    for name, content in (("ca", {"ca.crt": certificate}), ("secret", {"token": "secret\n"})):
        _mounted(mounted / name, content)
    (mounted / "keys").mkdir()
    config.write_text(text.replace("/etc/hpu-compile/", f"{mounted}/"))
    command = [native.server_binary(), "--cache-dir", str(folders.state)]
    command += ["--config", str(config), "--upstream", environment["HPU_COMPILE_SERVER"]]
    done = check(command)
    assert done.returncode == 0, done.stderr
