#!/usr/bin/env python3
"""Writes copies of C++ sources with many small defects, each of which can be switched on at run time, and a catalogue
of these mutants.

    mutate.py --clang PROGRAM --root FOLDER --out FOLDER SOURCE... -- CLANG_OPTION...

Headers are mutated if a source includes them. A copy has the same path below --out as its original below --root. The
catalogue is `mutants.json` below --out. Clang's syntax tree, as JSON, shows where an expression begins and ends, what
is a condition, and what must be constant. In the copies a mutated expression reads
`(active(0x1234abcd) ? mutated : original)`.

One mutant is one wrong expression:
- another operator (`<` for `<=`, `-` for `+`, `||` for `&&`), literal or enumerator;
- a negated condition, or a condition with a declaration that is never true;
- a guard (`if (...) return;`) that never holds;
- a call or an assignment that is left out;
- `std::exchange` that keeps the old value.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "/", "/": "*", "%": "*",
    "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=",
}
NEGATED_BY_OPERATOR = {"==", "!="}
# Nodes around an expression that the source does not show.
INVISIBLE = {
    "ImplicitCastExpr",
    "ExprWithCleanups",
    "MaterializeTemporaryExpr",
    "CXXBindTemporaryExpr",
    "CXXConstructExpr",
    "ConstantExpr",
}
COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
# Expressions from another place, such as a default: its source is at its declaration.
ELSEWHERE = {"CXXDefaultArgExpr", "CXXDefaultInitExpr"}


class Source:
    def __init__(self, path, name):
        self.name = name
        self.bytes = path.read_bytes()  # Clang counts bytes
        self.code = COMMENT.sub(lambda comment: b" " * len(comment[0]), self.bytes)  # at the same offsets
        self.sites = {}  # (begin, end) -> [(kind, how the mutated text is made, function)]
        self.left_alone = []

    def text(self, begin, end):
        return self.bytes[begin:end].decode()

    def line_of(self, offset):
        return self.bytes.count(b"\n", 0, offset) + 1

    def statement(self, offset):
        """The code between the `;`, `{` or `}` before the offset and the next one, without comments and white space."""
        begin = max(self.code.rfind(mark, 0, offset) for mark in b";{}") + 1
        end = min(found for mark in b";{}" if (found := self.code.find(mark, offset)) >= 0)
        return no_space(self.code[begin:end].decode())


class Locations:
    """Reads all locations of a tree in order, because Clang omits a file's name if the location before has the same."""

    def __init__(self, folder):
        self.folder = folder
        self.file = None

    def read(self, location):
        if "expansionLoc" in location:
            self.read(location["spellingLoc"])
            self.read(location["expansionLoc"])
            return None  # a macro's location
        if "file" in location:
            self.file = os.path.normpath(os.path.join(self.folder, location["file"]))
        if "offset" not in location:
            return None
        return self.file, location["offset"], location["offset"] + location["tokLen"]

    def annotate(self, node):
        if "loc" in node:
            place = self.read(node["loc"])
            node["name_ends"] = place[2] if place else None
        if "range" in node:
            begin, end = self.read(node["range"]["begin"]), self.read(node["range"]["end"])
            node["place"] = (begin[0], begin[1], end[2]) if begin and end and begin[0] == end[0] else None
        for child in node.get("inner", ()):
            self.annotate(child)


def documents(text):
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        while position < len(text) and text[position].isspace():
            position += 1
        if position < len(text):
            document, position = decoder.raw_decode(text, position)
            yield document


def syntax_trees(clang, source, options, folder):
    """The trees of our code in the source and in its includes, and the files that Clang has read."""
    with tempfile.NamedTemporaryFile("r", suffix=".d") as rule:
        trees = list(documents(dump(clang, source, [*options, "-MMD", "-MT", "it", "-MF", rule.name], folder)))
        files = rule.read().replace("\\\n", " ").removeprefix("it:").split()
    for tree in trees:
        Locations(folder).annotate(tree)
    return trees, [os.path.normpath(os.path.join(folder, file)) for file in files]


def dump(clang, source, options, folder):
    # The filter selects our code by its namespace. The whole tree, with the standard library, would be half a GB.
    command = [
        clang,
        *options,
        "-w",
        "-fsyntax-only",
        "-Xclang",
        "-ast-dump=json",
        "-Xclang",
        "-ast-dump-filter=shardproof",
        str(source),
    ]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {result.returncode}:\n{result.stderr}")
    return result.stdout


def enumerators(trees):
    """Maps the id of an enumerator to the names of all enumerators of its enumeration, and its own name."""
    found = {}

    def look(node):
        if node.get("kind") == "EnumDecl":
            members = [child for child in node.get("inner", ()) if child.get("kind") == "EnumConstantDecl"]
            names = [member["name"] for member in members]
            for member in members:
                found[member["id"]] = (names, member["name"])
        for child in node.get("inner", ()):
            look(child)

    for tree in trees:
        look(tree)
    return found


def seen(node):
    """The node that is visible in the source, without implicit casts, temporaries and constructions around it."""
    while (
        node.get("kind") in INVISIBLE
        and len(node.get("inner", ())) == 1
        and node["inner"][0].get("place") == node.get("place")
    ):
        node = node["inner"][0]
    return node


def inner_call(rewritten):
    """The call `a == b` inside an `a != b` that the compiler rewrites to `!(a == b)`."""
    call = rewritten["inner"][0]
    while call.get("kind") != "CXXOperatorCallExpr":
        call = call["inner"][0]
    call["place"] = rewritten["place"]
    return call


def callee_name(call):
    callee = seen(call["inner"][0])
    return callee.get("referencedDecl", {}).get("name", "")


class Mutator:
    def __init__(self, sources, enumeration_of):
        self.sources = sources
        self.enumeration_of = enumeration_of
        self.function = ""

    def site(self, node, kind, make):
        """Adds one mutant. `make` makes its text from the original text."""
        file, begin, end = node["place"]
        entry = (kind, make, self.function)
        known = self.sources[file].sites.setdefault((begin, end), [])
        if all((k, m) != (kind, make) for k, m, _ in known):  # each source that includes a header sees its code
            known.append(entry)

    def is_ours(self, node):
        return node.get("place") is not None and node["place"][0] in self.sources

    def text(self, node):
        file, begin, end = node["place"]
        return self.sources[file].text(begin, end)

    def visit(self, node):
        kind = node.get("kind")
        if kind is None or kind in ELSEWHERE or node.get("isImplicit"):
            return
        if kind in ("ConstantExpr", "EnumConstantDecl"):
            return
        if kind == "StaticAssertDecl" or (kind == "VarDecl" and node.get("constexpr")):
            self.leave_alone(node)
            return
        if kind in ("FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXDestructorDecl", "CXXConversionDecl"):
            self.visit_function(node)
            return
        handler = getattr(self, "visit_" + kind, None)
        if handler and self.is_ours(node):
            handler(node)
        elif handler is None or node.get("place") is None or kind.endswith("Decl"):
            self.visit_children(node)

    def leave_alone(self, node):
        """Skips a constant: no mutant of it can be switched on at run time."""
        if self.is_ours(node):
            source = self.sources[node["place"][0]]
            place = (source.line_of(node["place"][1]), self.text(node))
            if place not in source.left_alone:
                source.left_alone.append(place)

    def visit_children(self, node):
        for child in node.get("inner", ()):
            self.visit(child)

    def visit_function(self, node):
        outer = self.function
        if self.is_ours(node) and node.get("name_ends"):
            before = self.sources[node["place"][0]].text(node["place"][1], node["name_ends"])
            self.function = re.search(r"((?:\w+\s*::\s*)*~?[\w<>=!]*)$", before).group(1)
        self.visit_children(node)
        self.function = outer

    def visit_LambdaExpr(self, node):
        for child in node["inner"]:
            if child.get("kind") != "CXXRecordDecl":  # has a second copy of the body
                self.visit_in_block(child) if child.get("kind") == "CompoundStmt" else self.visit(child)

    # -- Statements ----------------------------------------------------------------------------------------------------

    def visit_CompoundStmt(self, node):
        for child in node.get("inner", ()):
            self.visit_in_block(child)

    def visit_in_block(self, node):
        """Visits a statement of a block. An expression statement can be left out."""
        whole = seen(node)
        kind = whole.get("kind")
        if whole.get("place") is not None and self.is_ours(node):
            if kind in ("CallExpr", "CXXMemberCallExpr"):
                self.site(node, "deleted_call", leave_out)
            elif self.is_assignment(whole):
                self.site(node, "deleted_assignment", leave_out)
        self.visit(node)

    def is_assignment(self, node):
        if node.get("kind") in ("BinaryOperator", "CompoundAssignOperator"):
            return (
                node["opcode"].endswith("=")
                and node["opcode"] not in OPERATORS
                or node["kind"] == "CompoundAssignOperator"
            )
        return node.get("kind") == "CXXOperatorCallExpr" and callee_name(node) in (
            "operator=",
            "operator+=",
            "operator-=",
        )

    def visit_IfStmt(self, node):
        parts = list(node["inner"])
        if node.get("isConstexpr") or node.get("isConsteval"):
            self.visit_children(node)
            return
        if node.get("hasInit"):
            self.visit(parts.pop(0))
        if node.get("hasVar"):
            declaration = parts.pop(0)
            self.visit(declaration)
            condition, body = parts[0], parts[1]
            if not node.get("hasInit"):
                self.never_true(declaration)
        else:
            condition, body = parts[0], parts[1]
            self.negate(condition)
            if is_way_out(body):
                self.site(condition, "deleted_guard", never)
            self.visit(condition)
        for branch in parts[1:]:
            self.visit_in_block(branch)

    def never_true(self, declaration):
        variable = declaration["inner"][0]
        file, begin, end = declaration["place"]
        end = variable["place"][2]
        site = {"place": (file, begin, end)}
        self.site(site, "negated_condition", NeverTrue(variable["name"]))

    def visit_ConditionalOperator(self, node):
        self.negate(node["inner"][0])
        self.visit_children(node)

    def visit_ForStmt(self, node):
        start, variable, condition, step, body = node["inner"]
        for part in (start, variable, condition, step):
            self.visit(part)
        self.visit_in_block(body)

    def visit_CXXForRangeStmt(self, node):
        # The source shows only the initialisation, the range, the variable and the body.
        start, over, body = node["inner"][0], node["inner"][1], node["inner"][-1]
        self.visit(start)
        self.visit_range(over)
        self.visit_in_block(body)

    def visit_range(self, declaration):
        for variable in declaration.get("inner", ()):
            self.visit_children(variable)

    def visit_WhileStmt(self, node):
        condition, body = node["inner"][-2:]
        self.visit(condition)
        self.visit_in_block(body)

    def visit_ReturnStmt(self, node):
        for value in node.get("inner", ()):
            if value.get("type", {}).get("qualType") == "void":
                self.visit_in_block(value)
            else:
                self.visit(value)

    def visit_CaseStmt(self, node):
        for child in node["inner"][1:]:
            self.visit_in_block(child)

    def visit_DefaultStmt(self, node):
        for child in node["inner"]:
            self.visit_in_block(child)

    def negate(self, condition):
        shown = seen(condition)
        while shown.get("kind") in ("ParenExpr", "CXXRewrittenBinaryOperator"):
            shown = inner_call(shown) if shown["kind"] == "CXXRewrittenBinaryOperator" else seen(shown["inner"][0])
        if not self.is_ours(condition) or self.operator_of(shown) in NEGATED_BY_OPERATOR:
            return
        if shown.get("kind") == "UnaryOperator" and shown.get("opcode") == "!":
            return
        self.site(condition, "negated_condition", negation)

    # -- Expressions ---------------------------------------------------------------------------------------------------

    def operands(self, node):
        children = node["inner"][1:] if node["kind"] == "CXXOperatorCallExpr" else node["inner"]
        # In a template an operator may be anything, until it is instantiated.
        is_known = node["type"]["qualType"] != "<dependent type>"
        if len(children) != 2 or not is_known or any(child.get("place") is None for child in children):
            return None
        return sorted(children, key=lambda child: child["place"][1])

    def operand_text(self, node):
        """The operand's text, in parentheses if an adjacent operator could bind a part of it."""
        shown = seen(node)
        if shown.get("kind") == "CXXRewrittenBinaryOperator":
            shown = inner_call(shown)
        is_loose = shown.get("kind") == "ConditionalOperator" or self.operator_of(shown) in OPERATORS
        return f"({self.text(node)})" if is_loose else self.text(node)

    def operator_of(self, node):
        if node.get("kind") not in (
            "BinaryOperator",
            "CompoundAssignOperator",
            "CXXOperatorCallExpr",
        ) or not self.is_ours(node):
            return None
        operands = self.operands(node)
        if not operands:
            return None
        file = node["place"][0]
        return self.sources[file].text(operands[0]["place"][2], operands[1]["place"][1]).strip()

    def visit_BinaryOperator(self, node):
        operator = self.operator_of(node)
        if operator in OPERATORS:
            left, right = self.operands(node)
            self.site(node, "operator", Operator(operator, self.operand_text(left), self.operand_text(right)))
        self.visit_children(node)

    visit_CompoundAssignOperator = visit_BinaryOperator

    def visit_CXXOperatorCallExpr(self, node):
        if self.operator_of(node) in ("==", "!=", "<", "<=", ">", ">="):
            self.visit_BinaryOperator(node)
        else:
            self.visit_children(node)

    def visit_CXXRewrittenBinaryOperator(self, node):
        self.visit_CXXOperatorCallExpr(inner_call(node))

    def visit_UnaryOperator(self, node):
        if node["opcode"] == "!" and self.text(node).startswith("!"):
            self.site(node, "operator", affirmation)
        self.visit_children(node)

    def visit_CallExpr(self, node):
        name = callee_name(node)
        arguments = node["inner"][1:]
        if name in ("min", "max") and re.match(r"std::(min|max)\(", self.text(node)):
            self.site(node, "operator", Other(name))
        elif name == "exchange" and self.text(node).startswith("std::exchange("):
            self.site(node, "deleted_call", Instead(self.text(arguments[0])))
        self.visit_children(node)

    def visit_IntegerLiteral(self, node):
        match = re.fullmatch(r"([0-9']+)([uUlLzZ]*)", self.text(node))
        if match:
            value = int(match[1].replace("'", ""))
            for other in (value + 1, value - 1):
                if other >= 0:
                    self.site(node, "literal", Instead(f"{other}{match[2]}"))

    def visit_CXXBoolLiteralExpr(self, node):
        self.site(node, "literal", Instead("false" if node["value"] else "true"))

    def visit_DeclRefExpr(self, node):
        names, name = self.enumeration_of.get(node["referencedDecl"]["id"], ((), ""))
        text = self.text(node)
        if len(names) > 1 and re.search(rf"\b{name}$", text):
            other = names[(names.index(name) + 1) % len(names)]
            self.site(node, "literal", Instead(text[: len(text) - len(name)] + other))


# How a mutated text is made from the original one. Equal makers make equal texts, so they can be compared.


def negation(original):
    return f"!({original})"


def affirmation(original):
    return f"static_cast<bool>({original[1:].strip()})"


def never(_original):
    return "false"


def leave_out(_original):
    return ""


class Maker:
    def __init__(self, *parts):
        self.parts = parts

    def __eq__(self, other):
        return type(self) is type(other) and self.parts == other.parts

    def __hash__(self):
        return hash(self.parts)


class Operator(Maker):
    def __call__(self, _original):
        operator, left, right = self.parts
        return f"{left} {OPERATORS[operator]} {right}"


class Other(Maker):
    def __call__(self, original):
        return original.replace(f"std::{self.parts[0]}", "std::max" if self.parts[0] == "min" else "std::min", 1)


class Instead(Maker):
    def __call__(self, _original):
        return self.parts[0]


class NeverTrue(Maker):
    def __call__(self, original):
        return f"{original}; false"


def is_way_out(statement):
    kind = statement.get("kind")
    if kind == "CompoundStmt":
        return len(statement.get("inner", ())) == 1 and is_way_out(statement["inner"][0])
    return kind in ("ReturnStmt", "ContinueStmt", "BreakStmt")


def one_line(text):
    return " ".join(text.split())


def no_space(text):
    return "".join(text.split())


class Catalogue:
    def __init__(self):
        self.mutants = []
        self.repeated = {}

    def add(self, source, place, kind, function, mutated):
        """Adds a mutant. Its id names the place by its code, without line numbers and layout, so edits elsewhere do not
        change it."""
        original = one_line(source.text(*place))
        words = (source.name, function, kind, source.statement(place[0]), no_space(original), no_space(mutated))
        ordinal = self.repeated[words] = self.repeated.get(words, 0) + 1
        name = hashlib.sha256("\0".join((*words, str(ordinal))).encode()).hexdigest()[:8]
        self.mutants.append(
            {
                "id": name,
                "file": source.name,
                "line": source.line_of(place[0]),
                "function": function,
                "kind": kind,
                "original": original,
                "mutated": one_line(mutated),
            }
        )
        return name

    def check(self):
        ids = [mutant["id"] for mutant in self.mutants]
        if len(ids) != len(set(ids)) or "00000000" in ids:
            raise SystemExit("two mutants have the same id; make ids longer")


def rewrite(source, catalogue):
    """The text with a choice at each site.

    A mutant changes a single expression, so the mutated texts contain no further choices.
    """
    places = sorted(source.sites, key=lambda place: (place[0], -place[1]))

    def render(begin, end, inside):
        text, position = "", begin
        while inside:
            place = inside[0]
            nested = [p for p in inside[1:] if p[0] < place[1]]
            inside = inside[1 + len(nested):]
            if any(p[1] > place[1] for p in nested):
                raise SystemExit(f"{source.name}:{source.line_of(place[0])}: expressions overlap")
            text += source.text(position, place[0]) + choice(place, nested)
            position = place[1]
        return text + source.text(position, end)

    def choice(place, nested):
        raw = source.text(*place)
        text = render(*place, nested)
        made = [
            (make, catalogue.add(source, place, kind, function, make(raw) or ";"))
            for kind, make, function in source.sites[place]
        ]
        # The choice that leaves out a statement is the outermost one, so that it contains the other choices.
        for make, name in sorted(made, key=lambda entry: entry[0] is leave_out):
            active = f"::shardproof::mutants::active(0x{name})"
            if isinstance(make, NeverTrue):
                variable = make.parts[0]
                text = f"{text}; !{active} && static_cast<bool>({variable})"
            elif make is leave_out:
                text = f"({active} ? (void)0 : (void)({text}))"
            elif make in (negation, affirmation, never):
                text = f"({active} ? {make(raw)} : static_cast<bool>({text}))"
            else:
                text = f"({active} ? ({make(raw)}) : ({text}))"
        return text

    body = render(0, len(source.bytes), places)
    return f'#include "tests/mutants/active.hpp"\n#line 1 "{source.name}"\n{body}'


def write_if_new(file, text):
    """Writes the file only if its text changes, so that an unchanged copy is not compiled again."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clang", required=True)
    parser.add_argument("--root", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument(
        "--depfile", type=pathlib.Path, help="the file for the dependencies of the catalogue, as a rule of Make"
    )
    parser.add_argument("sources", nargs="+", type=pathlib.Path)
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1:]
    return parser.parse_args(own), options


def main():
    args, options = arguments()
    root = args.root.resolve()
    sources = {}
    for path in args.sources:
        path = (root / path).resolve()
        sources[str(path)] = Source(path, str(path.relative_to(root)))
    compiled = [path for path in sources if path.endswith(".cpp")]
    read = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for trees, files in pool.map(lambda path: syntax_trees(args.clang, path, options, root), compiled):
            read.update(files)
            mutator = Mutator(sources, enumerators(trees))
            for tree in trees:
                mutator.visit(tree)
    catalogue = Catalogue()
    for source in sources.values():
        target = args.out / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_if_new(target, rewrite(source, catalogue))
    catalogue.check()
    left_alone = [{"file": source.name, "line": line, "text": one_line(text)}
                  for source in sources.values() for line, text in source.left_alone]
    document = {"mutants": catalogue.mutants, "left_alone": left_alone}
    target = args.out / "mutants.json"
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if args.depfile:
        args.depfile.write_text(f"{target}: " + " \\\n  ".join(sorted(read)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
