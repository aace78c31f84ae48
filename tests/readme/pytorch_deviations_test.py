"""Checks that every known deviation of PyTorch is explained and classified. Waivers link to sections of
docs/pytorch.md, which show scenarios. A table on that page has one row for each section of FSDP2. The page and the
README name the number of FSDP2's defects.

usage: pytorch_deviations_test.py ROOT
"""

import json
import pathlib
import re
import sys

SUBJECTS = ("pytorch", "pytorch_replicate")
CLASSES = ("defect", "promise not made", "our clause asks for more")


def sections(text, chapter):
    """The text of each section of a chapter, by its anchor."""
    parts = re.split(r"^### (.*)\n", text.split(f"\n## {chapter}\n")[1].split("\n## ")[0], flags=re.M)[1:]
    return {title_anchor(title): body for title, body in zip(parts[::2], parts[1::2])}


def title_anchor(title):
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def class_failures(page, readme, tests, explained):
    """Yields the mistakes in the table of classes, and in numbers that follow from it."""
    introduction, deviations = page.split("\n## Where it deviates\n")
    rows = re.findall(
        r"^\| \[([^]]*)\]\(#([^)]*)\) \| ([^|]*) \| ([^|]*) \| ([^|]+) \|$", deviations.split("\n### ")[0], re.M
    )
    if [anchor for _, anchor, *_ in rows] != list(explained):
        yield f"the table has other rows than the page has sections: {[anchor for _, anchor, *_ in rows]}"
    for title, anchor, clauses, kind, _ in rows:
        if anchor != title_anchor(title):
            yield f"another title than its section's: {title}"
        if kind not in CLASSES:
            yield f"no class: {kind!r} of {title}"
        if missing := set(clauses.split(", ")) ^ set(re.findall(r"\b(?:OVL|EXT)-\d+\b", explained.get(anchor, ""))):
            yield f"in the table or in the section only: {', '.join(sorted(missing))} of {title}"
    defects = sum(kind == "defect" for *_, kind, _ in rows)
    tested = set(re.findall(r"^    def test_(\w+)\(", tests.split("\nclass DefectTest(")[1], re.M))
    for name in sorted(tested ^ {anchor.replace("-", "_") for _, anchor, _, kind, _ in rows if kind == "defect"}):
        yield f"a defect without a test in test_defects.py, or a test without a defect: {name}"
    if f"{len(rows)} deviations of FSDP2 in **torch 2.15.0**, and {defects} of them are [defects]" not in " ".join(
        introduction.split()
    ):
        yield f"the page does not begin with the numbers of its table: {len(rows)} deviations, {defects} defects"
    if f"[{defects} defects](docs/pytorch.md#where-it-deviates)" not in readme:
        yield f"README.md does not name the number of defects: {defects}"


def main(root):
    page = (root / "docs/pytorch.md").read_text(encoding="utf-8")
    explained = sections(page, "Where it deviates")
    others = {**sections(page, "FSDP1"), **sections(page, "DDP")}
    waivers = json.loads((root / "fixtures/pytorch/waivers.json").read_text(encoding="utf-8"))["waivers"]
    links = {waiver["link"] for waiver in waivers}
    anchors = {f"docs/pytorch.md#{anchor}" for anchor in explained}
    shown = set(re.findall(r"\]\((pytorch/\w+\.json)\)", page))
    there = {f"pytorch/{path.name}" for path in (root / "docs/pytorch").glob("*.json")}
    failures = [
        f"waived, and not explained: {link}"
        for link in sorted(links - anchors - {f"docs/pytorch.md#{anchor}" for anchor in others})
    ]
    failures += [f"explained, and not waived: {link}" for link in sorted(anchors - links)]
    failures += [
        f"waived for another subject: {waiver['pattern']}"
        for waiver in waivers
        if waiver.get("when", {}).get("subject") not in SUBJECTS
    ]
    failures += [
        f"waived of another torch: {waiver['pattern']}"
        for waiver in waivers
        if not waiver["reason"].startswith("torch 2.15.0: ")
    ]
    failures += [
        f"shows another deviation than the section that explains it: {waiver['pattern']}"
        for waiver in waivers
        if "shown_by" in waiver
        and f"]({waiver['shown_by']['scenario'].removeprefix('docs/')})"
        not in {**others, **explained}.get(waiver["link"].split("#")[1], "")
    ]
    failures += [f"no scenario shows it: {anchor}" for anchor, body in explained.items() if "](pytorch/" not in body]
    failures += [f"not there, or not on the page: docs/{name}" for name in sorted(shown ^ there)]
    readme, tests = (
        (root / name).read_text(encoding="utf-8") for name in ("README.md", "fixtures/pytorch/tests/test_defects.py")
    )
    failures += class_failures(page, readme, tests, explained)
    for failure in failures:
        print("FAIL", failure)
    print(f"{len(waivers)} waivers, {len(explained)} deviations, {len(there)} scenarios")
    return 1 if failures or not waivers else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
