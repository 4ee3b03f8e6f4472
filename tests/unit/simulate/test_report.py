"""What a simulation says to people: the table, the warnings, and the page with its charts."""

import os
import re
from pathlib import Path
from xml.etree import ElementTree

from reconciler.cli.tables import Column, render
from reconciler.cli.terminal import Terminal
from reconciler.simulate.arena import Setup
from reconciler.simulate.bounds import Bound
from reconciler.simulate.charts import gantt_chart, held_share, use_chart, wait_chart
from reconciler.simulate.load import TraceJob
from reconciler.simulate.outcome import HeldReservation, Integrals, JobOutcome, Played, Stay
from reconciler.simulate.page import page
from reconciler.simulate.report import HEADS, document, heading, remarks, rows
from reconciler.simulate.simulation import Simulation
from tests.unit.simulate.paper import ask

GOLDEN = Path(__file__).parents[2] / "golden" / "simulate" / "report.txt"
HOUR_S = 3600


def a_run(policy: str, waits: list[float], **more: object) -> Played:
    outcomes = tuple(
        JobOutcome(
            ask=ask(f"job-{number}", 0, 4, HOUR_S),
            first_start_s=waited,
            ended_s=waited + HOUR_S,
        )
        for number, waited in enumerate(waits)
    )
    stays = tuple(
        Stay(job=n, gpus=4, began_s=o.first_start_s, ended_s=o.ended_s, nodes=((n % 2, 4),))
        for n, o in enumerate(outcomes)
    )
    return Played(
        policy=policy,
        gpus=16,
        nodes=2,
        outcomes=outcomes,
        stays=stays,
        integrals=Integrals(queued_s=7200, idle_gpu_s=7200 * 4, stuck_s=0),
        **more,  # type: ignore[arg-type]
    )


def a_simulation(*played: Played) -> Simulation:
    load = tuple(
        TraceJob(id=f"job-{number}", submit_s=number, duration_s=HOUR_S, gpus=4)
        for number in range(100)
    )
    bounded = Bound(duration_s=3600, srpt_s=900, busy_time_s=1800, lagrangian_s=4000)
    return Simulation(
        name="made-up",
        load=load,
        left_out=2,
        setup=Setup(nodes=2),
        played=played,
        bound=bounded,
    )


def thin_median_with_a_fat_tail() -> Played:
    return a_run("thin", [600.0] * 98 + [6.0 * HOUR_S] * 2)


def test_the_report_is_as_reviewed() -> None:
    held = HeldReservation(
        id="r", team="a", nodes=1, start_s=0, end_s=9, accepted=True, ready_s=0.0
    )
    said = document(
        a_simulation(
            thin_median_with_a_fat_tail(),
            a_run("even", [float(60 * n) for n in range(100)], cpu_s=1.25, reservations=(held,)),
        )
    )
    columns = [Column(head, "left" if head == "POLICY" else "right") for head in HEADS]
    plain = Terminal()
    text = "\n".join((heading(said), render(columns, rows(said), plain), *remarks(said), ""))
    if os.environ.get("HEADWAY_GOLDEN") == "rewrite":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "`make golden` writes it anew"


def test_a_median_of_ten_minutes_with_a_tail_of_six_hours_is_told() -> None:
    said = document(a_simulation(thin_median_with_a_fat_tail()))
    (told,) = [line for line in remarks(said) if line.startswith("thin")]
    assert "10.0m" in told
    assert "6.00h" in told


def test_an_even_wait_is_not_told_as_a_tail() -> None:
    said = document(a_simulation(a_run("even", [5.0 * HOUR_S] * 100)))
    assert not [line for line in remarks(said) if line.startswith("even")]


def test_the_document_has_every_figure_the_command_promises() -> None:
    (figures,) = document(a_simulation(thin_median_with_a_fat_tail()))["policies"]
    promised = {
        *("policy", "wait_mean_s", "wait_p50_s", "wait_p95_s", "wait_p99_s", "wait_max_s"),
        *("first_start_wait_mean_s", "jct_mean_s", "bound_jct_mean_s", "preemptions"),
        *("bounded_slowdown_mean", "utilisation_in_window", "gpu_hours_lost"),
        *("deadline_hit_rate", "reservations_on_time", "quota_violations", "fairness_worst"),
    }
    assert promised <= figures.keys()
    assert figures["bound_jct_mean_s"] == 4000


def test_the_page_is_self_contained_and_its_drawings_are_whole() -> None:
    simulation = a_simulation(thin_median_with_a_fat_tail(), a_run("even", [60.0] * 100))
    text = page(document(simulation), simulation.played)
    assert "<script" not in text
    assert not re.findall(r"(?:src|href)=", text)
    drawings = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(drawings) == 4
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_names_of_people_cannot_break_the_page() -> None:
    run = a_run("<b>bold</b>", [0.0] * 3)
    simulation = a_simulation(run)
    assert "<b>bold" not in page(document(simulation), simulation.played)


def test_charts_say_how_many_gpus_were_held() -> None:
    run = a_run("two", [0.0, 0.0])
    held = held_share(run, 0, 2 * HOUR_S)
    assert held[10][1] == 0.5
    assert held[-1][1] == 0.0
    assert "two" in wait_chart((run,))
    assert "two" in use_chart((run,))
    assert gantt_chart(run).count("<rect") == 2
