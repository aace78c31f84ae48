#!/usr/bin/env python3
"""Draws the first iteration of a trace that `shardproof run --trace` wrote as an SVG: one row per rank and stream, time
from left to right.

    docs/draw_timeline.py TRACE.json > timeline.svg
"""
import json
import sys
from xml.sax.saxutils import escape

ROW, BAR, LEFT, WIDTH, TOP = 26, 18, 190, 820, 28
COLORS = {"forward": "#4c78a8", "backward": "#2f5d8a", "all_gather": "#f2a541", "reduce_scatter": "#d1603d"}


def main(path):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    ranks = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    streams = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    second = min((e["ts"] for e in events if e["ph"] == "i" and e["name"].startswith("iter 1 ")), default=float("inf"))
    slices = [e for e in events if e["ph"] == "X" and e["ts"] < second]
    if not slices:
        sys.exit(f"{path}: no event of this trace has a duration; choose a trace with work or collectives")
    rows = sorted({(e["pid"], e["tid"]) for e in slices})
    end = max(e["ts"] + e["dur"] for e in slices)
    height = TOP + ROW * len(rows) + 24

    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" '
          'font-family="sans-serif" font-size="11">')
    print(f'<rect width="100%" height="100%" fill="#ffffff"/>')
    step = 10 ** max(0, len(str(int(end / 1000))) - 2) * 1000
    while end / step > 16:
        step *= 2
    for tick in range(0, int(end) + 1, int(step)):
        x = LEFT + WIDTH * tick / end
        print(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 20}" stroke="#dddddd"/>')
        print(f'<text x="{x:.1f}" y="{TOP - 10}" text-anchor="middle" fill="#555555">{tick // 1000} ms</text>')
    for index, row in enumerate(rows):
        y = TOP + ROW * index
        print(f'<text x="8" y="{y + 13}" fill="#222222">{escape(ranks[row[0]])} · {escape(streams[row])}</text>')
        for event in (e for e in slices if (e["pid"], e["tid"]) == row):
            x, width = LEFT + WIDTH * event["ts"] / end, WIDTH * event["dur"] / end
            kind, _, label = event["name"].partition(" ")
            color = COLORS.get(kind, "#999999")
            print(
                f'<rect x="{x:.1f}" y="{y}" width="{max(width - 0.8, 0.6):.1f}" height="{BAR}" fill="{color}">'
                f'<title>{escape(event["name"])}: {event["ts"] / 1000:g} ms, {event["dur"] / 1000:g} ms long</title>'
                "</rect>"
            )
            if width > 7 * len(label) + 4:
                print(f'<text x="{x + 4:.1f}" y="{y + 13}" fill="#ffffff">{escape(label)}</text>')
    x = LEFT
    for kind, color in COLORS.items():
        print(f'<rect x="{x}" y="{height - 14}" width="10" height="10" fill="{color}"/>')
        print(f'<text x="{x + 14}" y="{height - 5}" fill="#222222">{kind.replace("_", "-")}</text>')
        x += 120
    print("</svg>")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    main(sys.argv[1])
