"""What a piece of work depends on inside the package, read from source without running it.

From a module follow everything that it imports, inside functions too. The package itself, and a
module that sets ``LOOKED_UP_BY_NAME``, is a table in which entries are found by name. Its imports
say nothing about one entry and are not followed; its text counts. A public name is resolved:
``av.norms.residual`` is in ``attnverify.mathematics.norms``. A module is the smallest unit: an edit
of any of its lines counts.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from attnverify.support.parsing import parse

PACKAGE = __name__.partition(".")[0]
SOURCE = Path(__file__).resolve().parents[2]
DEFINITIONS = ast.FunctionDef | ast.ClassDef
TABLE = "LOOKED_UP_BY_NAME"  # a constant that says so of the module that sets it


class Sources:
    """The source and data files of the package below ``folder`` (default: those that run)."""

    def __init__(self, folder: Path = SOURCE) -> None:
        top = folder / PACKAGE
        files = [p for p in sorted(top.rglob("*")) if p.is_file() and p.suffix != ".pyc"]
        #: Module name, or path below the package of a data file, to file.
        self.files = {
            _module(p.relative_to(folder))
            if p.suffix == ".py"
            else p.relative_to(top).as_posix(): p
            for p in files
        }
        self.modules = frozenset(name for name, path in self.files.items() if path.suffix == ".py")
        self.data = self.files.keys() - self.modules
        self._stems: dict[tuple[str, str], set[str]] = {}
        for name in self.data:
            path = Path(name)
            self._stems.setdefault((path.parts[0], path.stem), set()).add(name)
        self.top = top
        self._stamps = self._stat()
        self._contents: dict[str, bytes] = {}
        self._direct: dict[str, frozenset[str]] = {}
        self._resolved: dict[str, frozenset[str]] = {}
        self._aliases: dict[str, dict[str, str]] = {}
        self._handed_on: dict[str, dict[str, str]] = {}
        self._digests: dict[str, str] = {}

    def reached(self, starts: Iterable[str]) -> frozenset[str]:
        """The starts (modules, data files) and everything that they depend on."""
        found: set[str] = set()
        pending = set(starts)
        while pending:
            found |= pending
            pending = {n for name in pending for n in self.direct(name)} - found
        return frozenset(found)

    def direct(self, name: str) -> frozenset[str]:
        """What one module itself names: the modules it imports, the data files it reads."""
        if name not in self.modules:
            return frozenset()
        if self.is_table(name):
            return above(name)
        if name not in self._direct:
            modules = {m for dotted in self.named(name) for m in self.resolve(dotted)}
            self._direct[name] = above(name) | modules | self._data(name)
        return self._direct[name]

    def _data(self, name: str) -> set[str]:
        """The data files that a module names: by their path from its folder, or by their stem.

        A stem counts within the same part of the package, as of weights: each is in a folder there.
        """
        here, texts = self.files[name].parent.relative_to(self.top), _texts(self._content(name))
        found = {(here / text).as_posix() for text in texts} & self.data
        part = here.parts[0] if here.parts else ""
        return found.union(*(self._stems.get((part, text), set()) for text in texts))

    def is_table(self, name: str) -> bool:
        """Whether entries are found by name in a module, so that its imports are not followed."""
        return name == PACKAGE or TABLE in self.aliases(name)

    def named(self, name: str) -> frozenset[str]:
        """The dotted names of the package in one module: see :func:`names`."""
        return _named(self._content(name), self._parent(name))

    def aliases(self, name: str) -> dict[str, str]:
        """The names of one module that stand for the package's: by import, or defined there."""
        if name not in self._aliases:
            tree = self.tree(name)
            found = {n.name: f"{name}.{n.name}" for n in tree.body if isinstance(n, DEFINITIONS)}
            assigned = (t for n in tree.body if isinstance(n, ast.Assign) for t in n.targets)
            stored = (t for target in assigned for t in ast.walk(target) if isinstance(t, ast.Name))
            found |= {t.id: f"{name}.{t.id}" for t in stored}
            self._aliases[name] = found | aliases_in(tree, self._parent(name))
        return self._aliases[name]

    def resolve(self, dotted: str) -> frozenset[str]:
        """The module that a dotted name lies in and the packages above it; all files if unclear."""
        if dotted not in self._resolved:
            self._resolved[dotted] = self._resolve(dotted)
        return self._resolved[dotted]

    def defined_as(self, dotted: str) -> str:
        """A dotted name as where it is defined spells it, as far as that can be told."""
        module, rest = self._split(dotted)
        origin = self._origins(module).get(rest[0]) if rest else None
        if origin is None or origin == dotted:
            return dotted
        return self.defined_as(".".join([origin, *rest[1:]]))

    def _split(self, dotted: str) -> tuple[str, list[str]]:
        """The module that a dotted name starts with, and the names behind it."""
        module, rest = dotted, []
        while module not in self.modules:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
        return module, rest

    def _resolve(self, dotted: str) -> frozenset[str]:
        module, rest = self._split(dotted)
        if not rest or rest[0].startswith("__"):
            return above(module)
        if rest == ["*"]:
            return frozenset(self.files)
        origin = self._origins(module).get(rest[0])
        if origin is not None and origin != dotted:
            return self.resolve(".".join([origin, *rest[1:]])) | above(module)
        here = self.aliases(module)
        if rest[0] not in here and (module == PACKAGE or "__getattr__" in here):
            return frozenset(self.files)  # made at run time, from who knows what
        return above(module)

    def digest(self, starts: Iterable[str]) -> str:
        """SHA-256 of names and contents of all files that the starts reach."""
        total = hashlib.sha256()
        for name in sorted(self.reached(starts)):
            if name not in self._digests:
                self._digests[name] = hashlib.sha256(self._content(name)).hexdigest()
            total.update(f"{name}\0{self._digests[name]}\n".encode())
        return total.hexdigest()

    def unchanged(self) -> bool:
        """Whether no file was written since this was made."""
        try:
            return self._stat() == self._stamps
        except OSError:
            return False  # one was removed

    def _stat(self) -> list[tuple[int, int]]:
        return [(s.st_mtime_ns, s.st_size) for s in (p.stat() for p in self.files.values())]

    def tree(self, name: str) -> ast.Module:
        """The syntax tree of a module."""
        return _parsed(self._content(name))

    def _content(self, name: str) -> bytes:
        if name not in self._contents:
            self._contents[name] = self.files[name].read_bytes()
        return self._contents[name]

    def _parent(self, name: str) -> str:
        """The package that a module's relative imports start from."""
        return name if self.files[name].name == "__init__.py" else name.rpartition(".")[0]

    def _origins(self, module: str) -> dict[str, str]:
        """The names that a module hands on, by import or in a table of strings (name: module)."""
        if module not in self._handed_on:
            self._handed_on[module] = self._find_origins(module)
        return self._handed_on[module]

    def _find_origins(self, module: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for node in self.tree(module).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                found |= bound(node, self._parent(module))
            elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
                found |= self._table(node.value)
        return found

    def _table(self, table: ast.Dict) -> dict[str, str]:
        """The entries of a table of strings ("module", "module:name") that stand for modules."""
        pairs = zip(table.keys, table.values, strict=True)
        texts = {
            key.value: value.value
            for key, value in pairs
            if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
        }
        entries = {}
        for name, target in texts.items():
            module, _, member = str(target).partition(":")
            if module in self.modules:
                entries[str(name)] = f"{module}.{member}" if member else module
        return entries


@cache
def _parsed(content: bytes) -> ast.Module:
    """The syntax tree of a source file, without what only type checkers and editors see."""
    tree = parse(content)
    for node in tree.body:
        names = "TYPE_CHECKING", "typing.TYPE_CHECKING"
        if isinstance(node, ast.If) and ast.unparse(node.test) in names:
            node.body = []
    return tree


@cache
def _named(content: bytes, package: str) -> frozenset[str]:
    return names(_parsed(content), package)


@cache
def _texts(content: bytes) -> frozenset[str]:
    """The strings of one line in a source file."""
    constants = (n.value for n in ast.walk(_parsed(content)) if isinstance(n, ast.Constant))
    return frozenset(t for t in constants if isinstance(t, str) and "\n" not in t)


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def above(name: str) -> frozenset[str]:
    """A module and the packages that it lies in, which are imported before it."""
    return frozenset(".".join(name.split(".")[:k]) for k in range(1, name.count(".") + 2))


def bound(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, str]:
    """The local names that an import binds to names of the package."""
    if isinstance(node, ast.Import):
        pairs = [(a.asname or a.name.partition(".")[0], a.name, a.asname) for a in node.names]
        found = {local: full if named else local for local, full, named in pairs}
    else:
        parts = package.split(".")
        base = parts[: len(parts) - node.level + 1] if node.level else []
        base += [node.module] if node.module else []
        found = {a.asname or a.name: ".".join([*base, a.name]) for a in node.names}
    return {k: v for k, v in found.items() if v.partition(".")[0] == PACKAGE}


def aliases_in(tree: ast.AST, package: str = PACKAGE) -> dict[str, str]:
    """Every local name that stands for a name of the package, by import."""
    imports = (n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom))
    return {local: dotted for node in imports for local, dotted in bound(node, package).items()}


def arguments(tree: ast.AST, dotted: str) -> list[object]:
    """The constant first arguments of all uses of a function; None for any other use of it."""
    aliases, found, called = aliases_in(tree), [], set()
    for node in ast.walk(tree):  # a call comes before the name that is called
        if isinstance(node, ast.Call) and spelled(node.func, aliases) == dotted:
            called.add(id(node.func))
            first = node.args[0] if node.args else None
            found.append(first.value if isinstance(first, ast.Constant) else None)
        elif id(node) not in called and spelled(node, aliases) == dotted:
            found.append(None)
    return found


def spelled(node: ast.AST, aliases: dict[str, str]) -> str:
    """The dotted name of the package that an expression is, "" if none."""
    parts = [node.id] if isinstance(node, ast.Name) else _chain(node)
    return ".".join([aliases[parts[0]], *parts[1:]]) if parts and parts[0] in aliases else ""


def names(tree: ast.AST, package: str = PACKAGE) -> frozenset[str]:
    """The dotted names of the package that a piece of source uses.

    An import and every chain of attributes behind an imported name: ``import attnverify as av``
    and ``av.norms.residual(X)`` give ``attnverify.norms.residual``. The package itself used in any
    other way (``getattr(av, name)``) gives ``attnverify.*``, which stands for all of it.
    """
    aliases = aliases_in(tree, package)
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import)]
    full = {a.name for n in imports for a in n.names}
    found = {name for name in full if name.startswith(f"{PACKAGE}.")}
    found |= {name for name in aliases.values() if name != PACKAGE}
    inside = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    for node in ast.walk(tree):
        name = spelled(node, aliases)
        if name == PACKAGE and id(node) not in inside:
            name = f"{PACKAGE}.*"
        found |= {name} - {"", PACKAGE}
    return frozenset(found)


def _chain(node: ast.AST) -> list[str]:
    """``a.b.c`` as its parts; nothing if it does not start at a name or is no attribute."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return [node.id, *parts] if isinstance(node, ast.Name) and parts else []
