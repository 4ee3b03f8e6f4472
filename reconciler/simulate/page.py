"""The page of a simulation: one file, no scripts, nothing fetched, readable in light and dark."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from reconciler.simulate.charts import gantt_chart, legend, use_chart, wait_chart
from reconciler.simulate.outcome import Played
from reconciler.simulate.report import HEADS, heading, remarks, rows

_HUES = ("#3366cc", "#cc5500", "#2e8b57", "#aa3377", "#8a6d00", "#5e4fa2", "#008b8b", "#777777")
_STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--faint:#d5d9df;--soft:#5b6470}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--paper:#14171b;--faint:#343a42;
--soft:#9aa4b1}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1100px;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}p{color:var(--soft)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;white-space:nowrap}
td,th{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--faint)}
td:first-child,th:first-child{text-align:left}th{color:var(--soft);font-weight:600}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.grid{stroke:var(--faint);stroke-width:1}polyline{fill:none;stroke-width:2}
.legend .mark{margin-right:1.2rem}.legend i{display:inline-block;width:.8rem;height:.8rem;
margin-right:.35rem;vertical-align:-1px}
"""


def page(said: Mapping[str, Any], played: Sequence[Played]) -> str:
    """Return the whole page for a result (``report.document``) and what it was made from."""
    colours = "".join(
        f".l{at}{{stroke:{hue}}}.c{at}{{fill:{hue}}}.b{at}{{background:{hue}}}"
        for at, hue in enumerate(_HUES)
    )
    names = [each.policy for each in played]
    told = "".join(f"<li>{escape(line)}</li>" for line in remarks(said))
    charts = "".join(
        f"<h2>{escape(each.policy)}: who held which GPUs</h2>{gantt_chart(each)}" for each in played
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>headway simulate: {escape(said['load']['name'])}</title>"
        f"<style>{_STYLE}{colours}</style></head><body>"
        f"<h1>{escape(heading(said))}</h1>"
        f'<div class="scroll">{_table(said)}</div>'
        f"{f'<ul>{told}</ul>' if told else ''}"
        "<h2>How long jobs waited</h2>"
        "<p>Wait is end less submission less duration: stopping and restarting cannot hide it.</p>"
        f"{legend(names)}{wait_chart(played)}"
        f"<h2>GPUs held</h2>{legend(names)}{use_chart(played)}"
        f"{charts}</body></html>\n"
    )


def _table(said: Mapping[str, Any]) -> str:
    heads = "".join(f"<th>{escape(head.lower())}</th>" for head in HEADS)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows(said)
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
