#!/usr/bin/env python3
"""Writes copies of the engines' sources in which each defect of hand_made.json can be switched on at run time.

    hand_made.py --root FOLDER --out FOLDER --defects FILE SOURCE...

A defect has a name and edits. An edit is a file, a text that the file contains exactly once, and the new text. Edits of
one file are made in order, so a later edit may change the text of an earlier one. `ACTIVE` in a new text is true while
the defect is on. A copy has the same path below --out as its original below --root. An edit that does not fit its file
is an error.
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
                    f"{name}: the defect {defect['name']} replaces a text that the file contains "
                    f"{text.count(old)} times, not once: {old}"
                )
            text = text.replace(old, new.replace("ACTIVE", active))
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--root", "--out", "--defects"):
        parser.add_argument(option, required=True, type=pathlib.Path)
    parser.add_argument("sources", nargs="+")
    args = parser.parse_args()
    defects = json.loads(args.defects.read_text(encoding="utf-8"))
    for file in {edit[0] for defect in defects for edit in defect["edits"]}.difference(args.sources):
        raise SystemExit(f"{file}: a defect edits this file, which is not a source of the engines")
    for name in args.sources:
        text = (args.root / name).read_text(encoding="utf-8")
        (args.out / name).parent.mkdir(parents=True, exist_ok=True)
        write_if_new(
            args.out / name, f'#include "tests/mutants/active.hpp"\n#line 1 "{name}"\n{edited(name, text, defects)}'
        )
    (args.out / "stamp").write_text("", encoding="utf-8")


if __name__ == "__main__":
    main()
