"""Checks alert rules and dashboard, with Prometheus' own tool and against Grafana's requirements
for a dashboard."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from deployed_server import ROOT
from monitoring_files import (
    ALERTS,
    ALERTS_TEST,
    dashboard,
    dashboard_expressions,
    panels,
    promtool,
    rules,
    write_rules,
)

needs_promtool = pytest.mark.skipif(
    promtool() is None, reason="no promtool: apt install prometheus"
)


def _promtool(*arguments: str | Path) -> None:
    done = subprocess.run(
        [str(promtool()), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_rules_and_scrape_configuration_are_good():
    _promtool("check", "rules", ALERTS)
    _promtool("check", "config", ALERTS.with_name("prometheus.yml"))


@needs_promtool
def test_alerts_fire_when_they_should():
    _promtool("test", "rules", ALERTS_TEST)


def test_every_alert_is_tested():
    tests = yaml.safe_load(ALERTS_TEST.read_text())["tests"]
    fired = {
        re.search(r'alertname="(\w+)"', sample["labels"]).group(1)
        for test in tests
        for check in test["promql_expr_test"]
        for sample in check["exp_samples"]
    }
    assert fired == {rule["alert"] for rule in rules()}
    well = next(test for test in tests if test["name"] == "nothing is wrong")
    told = " ".join(series["series"] for series in well["input_series"])
    asked = {name for rule in rules() for name in re.findall(r"\bhpu_\w+", rule["expr"])}
    assert {name for name in asked if name not in told} == set()


def test_every_alert_has_a_page():
    for rule in rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        file, anchor = rule["annotations"]["runbook_url"].split("#")
        headings = re.findall(r"^#+ (.+)$", (ROOT / file).read_text(), re.MULTILINE)
        assert anchor == rule["alert"].lower()
        assert rule["alert"] in headings


def test_panels_have_identities_and_places_of_their_own():
    found = panels()
    assert len({panel["id"] for panel in found}) == len(found)
    assert len({(panel["type"], panel["title"]) for panel in found}) == len(found)
    for panel in found:
        place = panel["gridPos"]
        assert place["x"] >= 0 and place["y"] >= 0 and place["w"] > 0 and place["h"] > 0
        assert place["x"] + place["w"] <= 24, panel["title"]
    for one, other in itertools.combinations(found, 2):
        a, b = one["gridPos"], other["gridPos"]
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, (one["title"], other["title"])


def test_every_panel_asks_the_chosen_data_source():
    source = {"type": "prometheus", "uid": "${datasource}"}
    variables = {variable["name"]: variable for variable in dashboard()["templating"]["list"]}
    assert variables.pop("datasource")["type"] == "datasource"
    assert all(variable["datasource"] == source for variable in variables.values())
    for panel in panels():
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == source, panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert references and len(set(references)) == len(references)
        for target in panel["targets"]:
            assert target["datasource"] == source
            used = set(re.findall(r"\$\{?(\w+)", target["expr"]))
            assert used <= {*variables, "__rate_interval", "__range"}, target["expr"]


@needs_promtool
def test_every_expression_of_the_dashboard_parses(tmp_path):
    expressions = dashboard_expressions()
    assert not any("$" in expression for expression in expressions.values())
    write_rules(tmp_path / "rules.yml", expressions)
    _promtool("check", "rules", tmp_path / "rules.yml")
