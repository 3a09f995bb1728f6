"""The names of the libraries that the project's code uses, read from the code itself."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import flask

LIBRARIES = ("flask", "werkzeug", "flask_cors", "marshmallow", "smtplib", "gunicorn")

HOOKS = (
    *("on_starting", "on_reload", "when_ready", "on_exit", "nworkers_changed"),
    *("pre_fork", "post_fork", "post_worker_init", "worker_int", "worker_abort", "worker_exit", "child_exit"),
    *("pre_exec", "pre_request", "post_request", "ssl_context"),
)
"""gunicorn's hooks. Its pages document them, and of the objects that it hands to them nothing."""


def used(files: Iterable[Path]) -> set[str]:
    """The names in all files: see ``names``."""
    return {name for file in files for name in names(file.read_text())}


def names(code: str) -> set[str]:
    """What the code imports, overrides and takes from an object of the libraries, and every foreign private attribute.

    - ``gunicorn.workers.gthread.ThreadWorker``: an import, or an attribute of an imported module
    - ``flask.Flask.log_exception``: a method or an attribute of a library's class that a class of the code overrides,
      or that its methods use of ``self`` or ``super()``; or what any code uses of ``request``
    - ``gunicorn: server.cfg.bind``: an attribute of an object that gunicorn hands to a hook
    - ``gunicorn: GUNICORN_FD``: an environment variable, a key of the WSGI environ or a logger
    - ``any: _private`` and ``any: __private__``: an attribute of anything but ``self``
    """
    tree = ast.parse(code)
    imported = dict(_imports(tree))
    return {
        *(name for name in imported.values() if "." in name and not _is_module(name)),
        *(node.names[0].name for node in ast.walk(tree) if isinstance(node, ast.Import) and _is_inner(node)),
        *_of_modules(tree, imported),
        *_of_classes(tree, imported),
        *_of_hooks(tree),
        *_of_request(tree),
        *_private(tree),
        *_variables(tree),
    }


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The local name and the full name of everything that is imported from a library."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [(alias.asname or alias.name, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [(alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names]
        else:
            continue
        yield from ((local, name) for local, name in found if name.partition(".")[0] in LIBRARIES)


def _is_inner(node: ast.Import) -> bool:
    return "." in node.names[0].name and node.names[0].name.partition(".")[0] in LIBRARIES


def _is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _of_modules(tree: ast.AST, imported: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = imported.get(node.value.id)
            if module and _is_module(module):
                yield f"{module}.{node.attr}"


def _of_classes(tree: ast.AST, imported: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        own = {*_defined(node)}
        for base in filter(None, (_full_name(base, imported) for base in node.bases)):
            theirs = {*_all_of(_resolve(base))}
            yield from (f"{base}.{name}" for name in own & theirs if name != "__init__")
            yield from (f"{base}.{name}" for name in _taken(node) if name not in own and not name.startswith("__"))
            yield from (f"{base}.{name}" for name in _of_super(node) if name != "__init__")


def _full_name(base: ast.expr, imported: dict[str, str]) -> str | None:
    if isinstance(base, ast.Name):
        return imported.get(base.id)
    if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name) and base.value.id in imported:
        return f"{imported[base.value.id]}.{base.attr}"
    return None


def _resolve(name: str) -> type:
    module, _, attribute = name.rpartition(".")
    found: type = getattr(importlib.import_module(module), attribute)
    return found


def _all_of(kind: type) -> Iterator[str]:
    """The attributes of a library's class and of its objects."""
    yield from dir(kind)
    for part in kind.__mro__:
        if part.__module__.partition(".")[0] in LIBRARIES:
            for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(part)))):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
                    yield node.attr


def _of_request(tree: ast.AST) -> Iterator[str]:
    theirs = {*_all_of(flask.Request)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "request":
            continue
        if node.attr in theirs or node.attr.startswith("_"):
            yield f"flask.Request.{node.attr}"


def _defined(node: ast.ClassDef) -> Iterator[str]:
    """What the class itself defines: methods, attributes of the class, and what its methods set on ``self``.

    An attribute that a method sets and the library's class has, too, is the library's.
    """
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield part.name
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            yield part.target.id
        elif isinstance(part, ast.Assign):
            yield from (target.id for target in part.targets if isinstance(target, ast.Name))
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and _is_self(inner.value):
            yield inner.attr


def _taken(node: ast.ClassDef) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and _is_self(part.value):
            yield part.attr


def _of_super(node: ast.ClassDef) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Call):
            called = part.value.func
            if isinstance(called, ast.Name) and called.id == "super":
                yield part.attr


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


def _of_hooks(tree: ast.AST) -> Iterator[str]:
    for hook in ast.walk(tree):
        if isinstance(hook, ast.FunctionDef) and hook.name in HOOKS:
            given = {argument.arg for argument in hook.args.args}
            for node in ast.walk(hook):
                if isinstance(node, ast.Attribute) and ast.unparse(node).partition(".")[0] in given:
                    yield f"gunicorn: {ast.unparse(node)}"


def _private(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not _is_self(node.value):
            is_super = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super"
            if not is_super:
                yield f"any: {node.attr}"


def _variables(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if re.fullmatch(r"GUNICORN_\w+|(gunicorn|werkzeug)\.[\w.]+", text):
            yield f"gunicorn: {text}"
