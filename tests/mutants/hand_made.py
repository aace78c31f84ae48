#!/usr/bin/env python3
"""Writes copies of the engines' sources in which each defect of hand_made.json can be switched on at run time.

    hand_made.py --root FOLDER --out FOLDER --defects FILE SOURCE...

A defect has a name, and edits: a file, a text that the file has exactly once, and the text that replaces it. Edits of
one file are made one after another, so a later edit may meet what an earlier one has written. `ACTIVE` in a new text is
true while the defect is on. A copy stands below --out where its original stands below --root. An edit that does not fit
its file is an error.
"""
import argparse
import hashlib
import json
import pathlib

from mutate import write_if_new


def identifier(name):
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def edited(name, text, defects):
    for defect in defects:
        active = f"::shardproof::mutants::active(0x{identifier(defect['name'])})"
        for file, old, new in defect["edits"]:
            if file != name:
                continue
            if text.count(old) != 1:
                raise SystemExit(
                    f"{name}: the defect {defect['name']} replaces a text that is there {text.count(old)} times, not once: {old}"
                )
            text = text.replace(old, new.replace("ACTIVE", active))
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--root", "--out", "--defects"):
        parser.add_argument(option, required=True, type=pathlib.Path)
    parser.add_argument("sources", nargs="+")
    asked = parser.parse_args()
    defects = json.loads(asked.defects.read_text(encoding="utf-8"))
    for file in {edit[0] for defect in defects for edit in defect["edits"]}.difference(asked.sources):
        raise SystemExit(f"{file}: a defect edits it, and it is no source of the engines")
    for name in asked.sources:
        text = (asked.root / name).read_text(encoding="utf-8")
        (asked.out / name).parent.mkdir(parents=True, exist_ok=True)
        write_if_new(
            asked.out / name, f'#include "tests/mutants/active.hpp"\n#line 1 "{name}"\n{edited(name, text, defects)}'
        )
    (asked.out / "stamp").write_text("", encoding="utf-8")


if __name__ == "__main__":
    main()
