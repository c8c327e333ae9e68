"""The contents of the dashboard and of the alert rules, and the tool that checks them."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from deployed_server import DEPLOYMENT, ROOT

ALERTS = DEPLOYMENT / "prometheus/alerts.yml"
ALERTS_TEST = DEPLOYMENT / "prometheus/alerts_test.yml"
DASHBOARD = DEPLOYMENT / "grafana/dashboard.json"

# The values that Grafana puts in place of these before Prometheus sees the expression.
_VARIABLES = {
    "$__rate_interval": "5m",
    "$__range": "1h",
    "${instance:regex}": ".*",
    "$instance": ".*",
    "$job": "x",
}


def promtool() -> str | None:
    """The installed promtool, or the one that `./dev test` took from Debian's package."""
    own = ROOT / "build/tools/promtool"
    return shutil.which("promtool") or (str(own) if own.exists() else None)


@cache
def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@cache
def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text())


def panels() -> list[dict[str, Any]]:
    """All panels, including those in collapsed rows."""
    found = []
    for panel in dashboard()["panels"]:
        found += [panel, *panel.get("panels", [])]
    return found


def dashboard_expressions() -> dict[str, str]:
    """The expressions by panel and reference, as Prometheus gets them."""
    found = {}
    for panel in panels():
        for target in panel.get("targets", []):
            expression = target["expr"]
            for variable, value in _VARIABLES.items():
                expression = expression.replace(variable, value)
            found[f"panel {panel['id']} {panel['title']} {target['refId']}"] = expression
    return found


def asked_metrics() -> dict[str, list[str]]:
    """The names of the server's metrics, with the places that ask for them."""
    places = dashboard_expressions()
    places |= {f"rule {rule.get('alert') or rule['record']}": rule["expr"] for rule in rules()}
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    found: dict[str, list[str]] = {}
    for place, expression in places.items():
        for name in re.findall(r"\bhpu_\w+", re.sub(r'"[^"]*"', '""', expression)):
            if name not in recorded:
                found.setdefault(name, []).append(place)
    return found


def write_rules(path: Path, expressions: dict[str, str]) -> None:
    """Writes a rule file of the expressions for promtool, because Debian's version parses
    expressions only in rules."""
    listed = [
        {"record": f"x:{index}", "expr": expression, "labels": {"place": place}}
        for index, (place, expression) in enumerate(expressions.items())
    ]
    path.write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": listed}]}))
