"""Is every known deviation of PyTorch explained? Waivers link to sections of docs/pytorch.md, which show scenarios; none is left over.

usage: pytorch_deviations_test.py ROOT
"""

import json
import pathlib
import re
import sys


def sections(text):
    """Of the deviations: the text of each by its anchor."""
    parts = re.split(r"^### (.*)\n", text.split("\n## Where it deviates\n")[1], flags=re.M)[1:]
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-"): body for title, body in zip(parts[::2], parts[1::2])}


def main(root):
    explained = sections((root / "docs/pytorch.md").read_text(encoding="utf-8"))
    waivers = json.loads((root / "fixtures/pytorch/waivers.json").read_text(encoding="utf-8"))["waivers"]
    links = {waiver["link"] for waiver in waivers}
    anchors = {f"docs/pytorch.md#{anchor}" for anchor in explained}
    shown = {name for body in explained.values() for name in re.findall(r"\]\((pytorch/\w+\.json)\)", body)}
    there = {f"pytorch/{path.name}" for path in (root / "docs/pytorch").glob("*.json")}
    failures = [f"waived, and not explained: {link}" for link in sorted(links - anchors)]
    failures += [f"explained, and not waived: {link}" for link in sorted(anchors - links)]
    failures += [f"waived for another subject: {waiver['pattern']}" for waiver in waivers if waiver.get("when", {}).get("subject") != "pytorch"]
    failures += [f"waived of another torch: {waiver['pattern']}" for waiver in waivers if not waiver["reason"].startswith("torch 2.15.0: ")]
    failures += [f"shows another deviation than the section that explains it: {waiver['pattern']}" for waiver in waivers
                 if f"]({waiver['shown_by']['scenario'].removeprefix('docs/')})" not in explained.get(waiver["link"].split("#")[1], "")]
    failures += [f"no scenario shows it: {anchor}" for anchor, body in explained.items() if "](pytorch/" not in body]
    failures += [f"not there, or of no section: docs/{name}" for name in sorted(shown ^ there)]
    for failure in failures:
        print("FAIL", failure)
    print(f"{len(waivers)} waivers, {len(explained)} deviations, {len(there)} scenarios")
    return 1 if failures or not waivers else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
