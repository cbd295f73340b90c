#!/usr/bin/env python3
"""Checks that no Python file lets the kernel pick a port, releases it and then gives it to a
program: by then another connection may use it. Use free_port() of tests/support/ports.py, which
reserves the port for the process. A port whose socket stays open is fine. Prints each violation as
FILE:LINE, and exits with 1 if there are any."""

import ast
import sys
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
FOLDERS = ("examples", "launcher", "tests", "worker")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def nodes_of(scope):
    """Yields all nodes of a function or a module, except for functions within it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, FUNCTIONS):
            yield from nodes_of(node)


def calls(node, method, owner=None):
    """True for a call of `owner.method(...)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) \
        and node.func.attr == method \
        and (owner is None or isinstance(node.func.value, ast.Name)
             and node.func.value.id == owner)


def is_of_the_kernel(call):
    """True for create_server((address, 0)) and bind((address, 0))."""
    address = call.args[0] if call.args else None
    return isinstance(address, ast.Tuple) and len(address.elts) > 1 \
        and isinstance(address.elts[1], ast.Constant) and address.elts[1].value == 0


def given_back(scope):
    """Yields (the socket's name, first and last line in which it is open) of each socket that gets
    its port from the kernel and is closed in this scope."""
    nodes = list(nodes_of(scope))
    picked = {node.func.value.id for node in nodes
              if calls(node, "bind") and isinstance(node.func.value, ast.Name)
              and is_of_the_kernel(node)}
    for node in nodes:
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                made, name = item.context_expr, getattr(item.optional_vars, "id", None)
                if name in picked or calls(made, "create_server") and is_of_the_kernel(made):
                    yield name, node.lineno, node.end_lineno
        elif isinstance(node, ast.Assign) and calls(node.value, "create_server") \
                and is_of_the_kernel(node.value) and isinstance(node.targets[0], ast.Name):
            picked.add(node.targets[0].id)
    for name in picked:
        for node in nodes:
            if calls(node, "close", name):
                yield name, 0, node.lineno


def breaches_of(scope):
    nodes = list(nodes_of(scope))
    for name, first, last in given_back(scope):
        for node in nodes:
            asks = any(calls(part, "getsockname", name) for part in ast.walk(node))
            if not asks or not first <= getattr(node, "lineno", -1) <= last:
                continue
            if isinstance(node, ast.Return):
                yield node.lineno
            elif isinstance(node, ast.Assign):
                ports = {part.id for target in node.targets for part in ast.walk(target)
                         if isinstance(part, ast.Name)}
                if any(isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
                       and part.id in ports and part.lineno > last for part in nodes):
                    yield node.lineno


def breaches():
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if "getsockname" not in (text := file.read_text()):
                continue
            tree = ast.parse(text, file)
            scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, FUNCTIONS))]
            for line in sorted({line for scope in scopes for line in breaches_of(scope)}):
                yield f"{file.relative_to(ROOT).as_posix()}:{line}: a port that was given back " \
                      "may be somebody else's: take free_port() of tests/support/ports.py"


def main():
    found = list(breaches())
    print(*found, f"{len(found)} ports that are given back and then used", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
