#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When tools/lint reads a file again: python3 tools/test_lint.py"""

import importlib.machinery
import importlib.util
import json
import pathlib
import tempfile
import unittest

LOADER = importlib.machinery.SourceFileLoader("lint", str(pathlib.Path(__file__).parent / "lint"))


class Tree:
    """A clone with two units, of which one includes a header, built or not."""

    def __init__(self, folder, flags="-O3", built=True):
        self.lint = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", LOADER))
        LOADER.exec_module(self.lint)
        self.root = pathlib.Path(folder).resolve()
        self.lint.ROOT, self.lint.BUILD = self.root, self.root / "build/release"
        self.lint.COMMANDS = self.root / "build/lint"
        self.lint.BUILD.mkdir(parents=True)
        self.version = "14"
        self.deps = ""
        self.lint.output_of = lambda *command: self.deps if command[0] == "ninja" else self.version
        for name in (".clang-tidy", "x.h", "x.cc", "y.cc"):
            (self.root / name).write_text(name)
        commands = []
        for unit, read in (("x.cc", ["x.cc", "x.h"]), ("y.cc", ["y.cc"])):
            command = f"c++ -I{self.root} {flags} -o {unit}.o -c {self.root / unit}"
            commands.append({"directory": str(self.lint.BUILD), "command": command, "file": str(self.root / unit)})
            if built:
                self.deps += f"{unit}.o: #deps {len(read)}, deps mtime 1 (VALID)\n"
                self.deps += "".join(f"    {self.root / path}\n" for path in read) + "\n"
        (self.lint.BUILD / "compile_commands.json").write_text(json.dumps(commands))

    def names(self):
        self.lint.digest.cache_clear()
        return self.lint.names_of_states({"x.cc", "y.cc"})


class Lint(unittest.TestCase):
    def setUp(self):
        self.folders = []

    def tearDown(self):
        for folder in self.folders:
            folder.cleanup()

    def tree(self, **options):
        self.folders.append(tempfile.TemporaryDirectory())
        return Tree(self.folders[-1].name, **options)

    def test_a_clone_is_the_same(self):
        names = self.tree().names()
        self.assertEqual(set(names), {"x.cc", "y.cc"})
        self.assertNotEqual(names["x.cc"], names["y.cc"])
        self.assertEqual(names, self.tree().names())

    def test_a_header_changes_the_units_that_include_it(self):
        tree = self.tree()
        before = tree.names()
        (tree.root / "x.h").write_text("changed")
        after = tree.names()
        self.assertNotEqual(before["x.cc"], after["x.cc"])
        self.assertEqual(before["y.cc"], after["y.cc"])

    def test_checks_flags_and_the_tool_change_all(self):
        before = self.tree().names()
        tree = self.tree()
        (tree.root / ".clang-tidy").write_text("changed")
        newer = self.tree()
        newer.version = "15"
        for changed in (tree, newer, self.tree(flags="-O2")):
            after = changed.names()
            for unit in ("x.cc", "y.cc"):
                self.assertNotEqual(before[unit], after[unit])

    def test_what_was_not_built_has_no_name(self):
        self.assertEqual(self.tree(built=False).names(), {})
        tree = self.tree()
        (tree.root / "x.h").unlink()
        self.assertEqual(set(tree.names()), {"y.cc"})

    def test_precompiled_headers_are_left_out(self):
        plain = self.tree().names()
        tree = self.tree()
        pch = tree.lint.BUILD / "cmake_pch.hxx"
        commands = json.loads((tree.lint.BUILD / "compile_commands.json").read_text())
        for entry in commands:
            entry["command"] = entry["command"].replace(
                " -O3", f" -O3 -fpch-preprocess -Winvalid-pch -include {pch}")
        (tree.lint.BUILD / "compile_commands.json").write_text(json.dumps(commands))
        pch.write_text("headers")
        tree.deps = tree.deps.replace("    ", f"    {pch}\n    ", 1)
        self.assertEqual(plain, tree.names())
        self.assertNotIn("pch", (tree.lint.COMMANDS / "compile_commands.json").read_text())


if __name__ == "__main__":
    unittest.main()
