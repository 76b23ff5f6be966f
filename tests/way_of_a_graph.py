#!/usr/bin/env python3
"""Counts how often the way of a graph returns to a folder of src/ that it had left.

usage: way_of_a_graph.py ROOT [--most N] [--verbose]
       way_of_a_graph.py --self-test

The way begins in lower::lower(contraction, graph, options, device, further) and follows calls in the order in which
they stand, each function once. It enters a folder with a function that hands the graph on: that returns a graph or one
of the forms it takes on its way (FORMS), or changes one in place. Functions that only read it are followed, but enter
nothing. A call that is qualified by a folder's namespace goes there; another one goes to a function of its own file,
else of its own folder; a call of a member goes to its own file, or, if a family implements it (VIRTUAL), to the family
FAMILY. What tells why a graph is refused
(ENDS) is not followed: the way ends there. Names are all that the script knows: it resolves no overloads and follows
each.

Prints the way and the number of returns. Exit code 0: at most N (MOST); 1: more; 2: no such start.
"""
import argparse
import pathlib
import re
import sys
import tempfile
import unittest

MOST = 5
START = ("lower", "lower", "const Contraction& contraction")
FOLDERS = ["lower", "ir", "passes", "plan", "tuning", "families", "codegen", "jit"]
FAMILY = "sm90_conv"
VIRTUAL = {"candidates", "generate", "can_implement", "anchor"}
FORMS = re.compile(
    r"\b(Graph|EpilogueGraphs|AffineForm|RowForm|SplitStores|Epilogue|Forms|Problem|Workload|ConvProblem|Chosen|"
    r"PlanPointer|Candidate|ConvCandidate|ConvConfig|Kernel|Lowered|Request)\b"
)
CHANGES = re.compile(r"(?<!const )\b(?:plan::|passes::)?(Graph|Forms|Epilogue)& ")
ENDS = re.compile(r"refus\w*|because|text_of|told")
KEYWORDS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype"}
DEFINITION = re.compile(
    r"\b(?:\w+(?:<[^<>]*>)?::)*(\w+)\s*\(([^;{}]*?)\)\s*(?:const\s*)?(?:&&\s*)?(?:override\s*)?"
    r"(?::[^;{}]*(?:\{[^{}]*\}[^;{}]*)*)?\{"
)
CALL = re.compile(r"(?:(\w+)::)?\b(\w+)(?:<[\w:]+>)?\s*([({])|&(?:\w+::)?(\w+)\b(?=[,}])")


def stripped(text):
    return re.sub(r'"(\\.|[^"\\])*"', '""', re.sub(r"//[^\n]*", "", text))


def end_of(text, at):
    """Behind the bracket that closes the one before `at`."""
    depth = 1
    while depth and at < len(text):
        depth += (text[at] in "({") - (text[at] in ")}")
        at += 1
    return at


def functions(src):
    """{name: [(folder, file, parameters, body, what stands ahead of the name)]}"""
    found = {}
    for folder in FOLDERS:
        for file in sorted((src / folder).rglob("*.[ch]pp")):
            if folder == "families" and file.parent.name not in ("families", "interface", "sm90", FAMILY):
                continue
            text = stripped(file.read_text())
            for match in DEFINITION.finditer(text):
                ahead = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
                if match[1] in KEYWORDS or re.search(r"[=.]|->|return", ahead):
                    continue
                body = text[match.end() : end_of(text, match.end())]
                found.setdefault(match[1], []).append((folder, file, match[2], body, ahead))
    return found


class Way:
    def __init__(self, src):
        self.src, self.found = src, functions(src)
        self.folders, self.steps, self.seen = [], [], set()
        self.callers = []

    def begin(self):
        folder, name, parameter = START
        for function in self.found.get(name, []):
            if function[0] == folder and parameter in function[2]:
                self.follow(function, name)

    def returns(self):
        return sum(folder in self.folders[:i] for i, folder in enumerate(self.folders))

    def follow(self, function, name):
        folder, file, parameters, body, ahead = function
        key = (file, name, parameters)
        if key in self.seen:
            return
        self.seen.add(key)
        hands_on = FORMS.search(ahead) or FORMS.fullmatch(name) or CHANGES.search(parameters)
        if hands_on and self.folders[-1:] != [folder]:
            self.folders.append(folder)
            by = f", by {' < '.join(reversed(self.callers[-3:]))}" if self.callers else ""
            self.steps.append(f"{folder}: {name} ({file.relative_to(self.src)}){by}")
        self.callers.append(name)
        self.walk(body, folder, file)
        self.callers.pop()

    def walk(self, text, folder, file):
        """Arguments are called before what they are passed to."""
        at = 0
        for match in CALL.finditer(text):
            if match.start() < at:
                continue
            name = match[2] or match[4]
            if match[3]:
                at = end_of(text, match.end())
                if name in KEYWORDS:
                    at = match.end()
                    continue
                self.walk(text[match.end() : at - 1], folder, file)
            for function in self.meant(match[1], name, text[: match.start()], folder, file):
                self.follow(function, name)

    def meant(self, qualifier, name, ahead, folder, file):
        """The functions that a call may mean."""
        if ENDS.fullmatch(name):
            return []
        named = self.found.get(name, [])
        if qualifier in FOLDERS:
            return [f for f in named if f[0] == qualifier]
        own = [f for f in named if f[1] == file]
        if own:
            return own
        if re.search(r"(->|\.)\s*$", ahead):
            return [f for f in named if f[1].parent.name == FAMILY] if name in VIRTUAL else []
        return [f for f in named if f[0] == folder]


class Counts(unittest.TestCase):
    def way(self, **files):
        with tempfile.TemporaryDirectory() as root:
            for folder, text in files.items():
                (pathlib.Path(root) / folder).mkdir()
                (pathlib.Path(root) / folder / f"{folder}.cpp").write_text(text)
            way = Way(pathlib.Path(root))
            way.begin()
            return way.folders

    LOWER = "Lowered lower(const Contraction& contraction) {\n  return plan::shape(passes::run(graph));\n}\n"
    PASSES = "Graph run(const Graph& graph) {\n  return graph;\n}\n"

    def test_arguments_come_first(self):
        plan = "Epilogue shape(const Graph& graph) {\n  return {graph};\n}\n"
        self.assertEqual(self.way(lower=self.LOWER, passes=self.PASSES, plan=plan), ["lower", "passes", "plan"])

    def test_a_folder_is_entered_again(self):
        plan = (
            "Graph split(const Graph& graph) {\n  return passes::cut(graph);\n}\n"
            "Epilogue shape(const Graph& graph) {\n  return {split(graph)};\n}\n"
        )
        passes = self.PASSES + "Graph cut(const Graph& graph) {\n  return graph;\n}\n"
        way = self.way(lower=self.LOWER, passes=passes, plan=plan)
        self.assertEqual(way, ["lower", "passes", "plan", "passes"])

    def test_readers_and_refusals_enter_nothing(self):
        plan = (
            "bool is_wide(const Graph& graph) {\n  return true;\n}\n"
            "Epilogue shape(const Graph& graph) {\n  return refusal_at(is_wide(graph));\n}\n"
            "Refusal refusal_at(bool wide) {\n  return passes::run(wide);\n}\n"
        )
        self.assertEqual(self.way(lower=self.LOWER, passes=self.PASSES, plan=plan), ["lower", "passes", "plan"])

    def test_without_a_start(self):
        self.assertEqual(self.way(lower="", passes=""), [])


def main():
    if sys.argv[1:] == ["--self-test"]:
        unittest.main(argv=sys.argv[:1])
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    way = Way(arguments.root / "src")
    way.begin()
    if not way.folders:
        print("{}::{}({}, ...) is not found".format(*START))
        return 2
    print(" -> ".join(way.folders))
    if arguments.verbose:
        print("\n".join(way.steps))
    print(f"{way.returns()} returns to a folder that the way had left, at most {arguments.most}")
    return 0 if way.returns() <= arguments.most else 1


if __name__ == "__main__":
    sys.exit(main())
