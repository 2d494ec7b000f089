"""docs/operations: the alert rules and the dashboard, by the tools that read them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

import holdfast
import holdfast.prometheus

ROOT = Path(__file__).parents[2]
OPERATIONS = ROOT / "docs" / "operations"
RULES = OPERATIONS / "alerts.yml"

# Prometheus adds these to each sample that it scrapes.
SCRAPED = {"job", "instance"}
# Micrometer has these in place of a histogram's buckets; java/.../OperationsTest checks them.
MICROMETERS = {"holdfast_wait_histogram", "holdfast_hold_histogram"}
VARIABLES = {"$__rate_interval": "5m", "$job": ".*", "$instance": ".*", "$lock": ".*"}


def promtool(*arguments: str | Path) -> str:
    """Run promtool of Debian's package prometheus, which scripts/test installs."""
    done = subprocess.run(
        ["promtool", *arguments], capture_output=True, text=True, timeout=50, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dashboard() -> Any:
    return json.loads((OPERATIONS / "dashboard.json").read_text())


def queries() -> list[str]:
    board = dashboard()
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def expressions() -> list[str]:
    """Return all PromQL of the files."""
    rules = RULES.read_text()
    one = re.findall(r"^ +expr: (?!\|)(.*)$", rules, re.MULTILINE)
    many = re.findall(r"^ +expr: \|\n((?: {10}.*\n)+)", rules, re.MULTILINE)
    assert len(one) + len(many) == rules.count("- alert:")
    variables = [each["query"] for each in dashboard()["templating"]["list"]]
    return [*one, *many, *queries(), *(each for each in variables if "holdfast" in each)]


@pytest.fixture
def exported(client: holdfast.Client, name: str) -> dict[str, dict[str, set[str]]]:
    """Return the labels of each series that the Collector really exports, and their values."""
    registry = prometheus_client.CollectorRegistry()
    registry.register(holdfast.prometheus.Collector(main=client))
    client.lock(name, count_name=True).hold().release()
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    text = prometheus_client.generate_latest(registry).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found[sample.name]
            for label, value in sample.labels.items():
                labels[label].add(value)
    return found


def test_the_alert_rules_are_right() -> None:
    assert "SUCCESS: 13 rules found" in promtool("check", "rules", RULES)


def test_each_alert_is_raised_by_what_it_is_for() -> None:
    tests = ROOT / "tests" / "operations" / "alerts.test.yml"
    promtool("test", "rules", tests)
    for alert in re.findall(r"- alert: (\w+)", RULES.read_text()):
        assert len(re.findall(rf"alertname: {alert}\b", tests.read_text())) >= 2, alert


def test_each_alert_is_explained() -> None:
    page = (OPERATIONS / "metrics.md").read_text()
    for alert in re.findall(r"- alert: (\w+)", RULES.read_text()):
        assert f"| {alert} |" in page


def test_every_query_of_the_dashboard_is_promql(tmp_path: Path) -> None:
    rules = []
    for number, query in enumerate(queries()):
        for variable, value in VARIABLES.items():
            query = query.replace(variable, value)
        assert "$" not in query
        rules.append({"record": f"query:{number}", "expr": query})
    file = tmp_path / "rules.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in promtool("check", "rules", file)


def test_what_is_asked_for_is_exported(exported: dict[str, dict[str, set[str]]]) -> None:
    asked = 0
    for expression in expressions():
        for metric, matchers in re.findall(r"(holdfast_\w+)(?:\{([^}]*)\})?", expression):
            if metric in MICROMETERS:
                continue
            assert metric in exported, expression
            labels = exported[metric]
            for label, how, value in re.findall(r'(\w+)(=~?)"([^"]*)"', matchers):
                asked += 1
                assert label in SCRAPED | labels.keys(), expression
                for each in value.split("|") if "$" not in value else []:
                    assert how in {"=", "=~"}
                    assert each in labels[label], expression
        known = {label for labels in exported.values() for label in labels} | SCRAPED
        for grouped in re.findall(r"by \(([^)]*)\)", expression):
            assert set(re.split(r",\s*", grouped)) <= known, expression
    assert asked > 30


def test_every_metric_is_on_the_page_and_on_the_dashboard(
    exported: dict[str, dict[str, set[str]]],
) -> None:
    page, board = (OPERATIONS / "metrics.md").read_text(), json.dumps(dashboard())
    for metric, labels in exported.items():
        if metric.endswith("_created"):
            continue
        family = re.sub(r"(_seconds)_(bucket|count|sum)$", r"\1", metric)
        assert f"`{family}`" in page
        assert metric in board
        for value in labels["cause"] | labels["outcome"]:
            assert re.search(rf"\|[^|]*`{value}`[^|]* \|", page)


def test_nothing_of_the_page_is_invented(exported: dict[str, dict[str, set[str]]]) -> None:
    families = {re.sub(r"(_seconds)_(bucket|count|sum)$", r"\1", metric) for metric in exported}
    for metric in re.findall(r"`(holdfast_\w+)`", (OPERATIONS / "metrics.md").read_text()):
        assert metric in families | MICROMETERS


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Grafana's SDK needs Python 3.11")
def test_grafana_knows_every_member_of_the_dashboard() -> None:
    """Grafana's SDK reads the members of its schema: a member that it does not write again is
    unknown."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    def lost(given: Any, back: Any, where: str) -> list[str]:
        if isinstance(given, dict):
            return [
                each
                for key, value in given.items()
                for each in (
                    lost(value, back[key], f"{where}.{key}") if key in back else [f"{where}.{key}"]
                )
            ]
        if isinstance(given, list):
            pairs = zip(given, back, strict=True)
            return [each for n, pair in enumerate(pairs) for each in lost(*pair, f"{where}[{n}]")]
        return [] if given == back else [where]

    register_default_plugins()
    given = dashboard()
    back = json.loads(JSONEncoder().encode(Dashboard.from_json(given)))
    assert lost(given, back, "") == []


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    places = set()
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in places, panel["title"]
                places.add((x, y))
