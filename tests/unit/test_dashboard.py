"""The dashboard and the alerts: every expression parses, and asks for metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import promql_parser
import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.sources import ROOT
from tests.unit.test_telemetry import PROCESSES

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOY = ROOT / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "gangline.json").read_text())
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], each["expr"]) for panel in PANELS for each in panel["targets"]]


def _plain(expression: str) -> str:
    """With Grafana's variables filled in."""
    return expression.replace("$__rate_interval", "5m").replace("$team", ".*")


@pytest.fixture(scope="module")
def served() -> set[str]:
    """The names of all series that processes serve, as Prometheus stores them."""
    names: set[str] = set()
    for make in PROCESSES.values():
        text = generate_latest(make()).decode()
        for family in text_string_to_metric_families(text):
            suffixes = ("_bucket", "_count", "_sum") if family.type == "histogram" else ("",)
            suffixes = ("_total",) if family.type == "counter" else suffixes
            names |= {family.name + suffix for suffix in suffixes}
    return names


def _metrics(expression: str) -> Iterator[str]:
    yield from re.findall(r"\bgangline_\w+", expression)


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_a_panel_asks_for_what_is_served(title: str, query: str, served: set[str]) -> None:
    """Its expression is PromQL."""
    promql_parser.parse(_plain(query))

    assert set(_metrics(query)) <= served, title


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_asks_for_what_is_served(rule: dict[str, Any], served: set[str]) -> None:
    """Its expression is PromQL, and it says how bad it is and what to do."""
    promql_parser.parse(rule["expr"])

    assert set(_metrics(rule["expr"])) <= served
    assert rule["labels"]["severity"] in ("warning", "critical")
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_promtool_agrees() -> None:
    """Where Prometheus' own tool is there, it has the last word."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool here; the parser read every rule above")

    done = subprocess.run([promtool, "check", "rules", str(ALERTS)], check=False)

    assert done.returncode == 0


def test_the_dashboard_is_whole() -> None:
    """Its source is a variable, each panel has a place and an explanation of its own."""
    (source, *_) = DASHBOARD["templating"]["list"]
    places = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]

    assert source["type"] == "datasource"
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len(set(places)) == len(places)
    assert all(panel["description"] for panel in PANELS)
    assert all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in PANELS)


def test_the_scrape_names_every_kind_of_process() -> None:
    """And the file of alerts."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())

    jobs = {each["job_name"] for each in config["scrape_configs"]}
    assert jobs == {f"gangline-{process}" for process in PROCESSES}
    assert config["rule_files"] == [ALERTS.name]
