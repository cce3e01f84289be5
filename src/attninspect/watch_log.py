"""What a watch measured, and the log of it: a file of JSON lines, one of the model, then records.

A log may come from anywhere, so each line is checked before anything is computed with it, and each
error names the line. It is read and written as bytes, so that no line's end is translated.
"""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from attnverify.mathematics.gauges import Head, Layer
from attnverify.support import files
from attnverify.support.errors import InputError, in_words, require, shown

FORMAT = "attnverify watch 1"
EXPECTED = "a log that av.Watch writes"
LARGEST = 64 << 20  # bytes of a log: some 500,000 heads
LONGEST = 4 << 20  # bytes of a line
MOST = 1000  # layers, and heads of a layer
WORDS = ("class", "parameters", "layers", "heads")  # what tells one model from another


#: What is measured of a head.
HEAD = tuple(field.name for field in fields(Head))


@dataclass(frozen=True)
class Measured:
    """What a watch measured at a step."""

    step: int
    layers: tuple[Layer, ...]

    def scalars(self) -> dict[str, float]:
        """Residual and diameter of each layer, and means over its heads, by name."""
        found = {}
        for number, layer in enumerate(self.layers, 1):
            heads = {name: [getattr(h, name) for h in layer.heads] for name in HEAD}
            means = {name: sum(values) / len(values) for name, values in heads.items()}
            whole = {"residual": layer.residual, "diameter": layer.diameter}
            found |= {f"attention/layer {number}/{k}": v for k, v in (whole | means).items()}
        return found

    def gauges(self) -> Tensor:
        """The gauges, (layers, heads), float64."""
        gauges = [[head.gauge for head in layer.heads] for layer in self.layers]
        return torch.tensor(gauges, dtype=torch.float64)


class Log:
    """A log that is made or gone on with. A torn last line is dropped.

    words: what tells one model from another, WORDS. Raises InputError for a log of another model,
    and for a place where none can be written.
    """

    size = 0  #: bytes of the whole lines that were read

    def __init__(self, path: Path, words: dict[str, Any]) -> None:
        files.require_writable("log", path, lambda path: True)  # whose it is, is read below
        require(not path.exists() or path.is_file(), "log", path, "a regular file")
        self.path, self.words = path, _words("log", words)
        self.records: list[Measured] = []
        self._waiting, self._warned = b"", False
        if path.exists() and path.stat().st_size:
            before = self.of(path)
            good = before.words == self.words
            require(good, "log", f"{path.name} of {before.words}", f"a log of {self.words}")
            self.records = before.records
            os.truncate(path, before.size)
        else:
            self._append({"format": FORMAT, **words})

    @classmethod
    def of(cls, path: Path) -> Log:
        """A log as it is now, to read only, while it may be written elsewhere.

        Raises InputError, which names the line, for a file that is no such log.
        """
        require(path.is_file(), "log", f"{path}, which is no file", EXPECTED)
        log = cls.__new__(cls)
        log.path, log.words, log.records = path, {}, []
        for where, line, log.size in _lines(path):
            if not log.words:
                body = _object(where, line, ("format", *WORDS), "a line")
                if body["format"] != FORMAT:
                    _refuse(where, "format", body["format"], FORMAT)
                log.words = _words(where, {name: body[name] for name in WORDS})
            else:
                log.records.append(_record(where, line, log.words["heads"]))
        require(bool(log.words), "log", f"{path.name} without a whole line", EXPECTED)
        return log

    def add(self, record: Measured) -> None:
        """One whole line, on the disk when this returns.

        Where it cannot be written, a training goes on: there is one warning, and the line is
        written with the next.
        """
        try:
            self._append(asdict(record))
        except OSError as error:
            if not self._warned:
                said = f"{self.path}: {error.strerror}; records wait in memory"
                warnings.warn(f"the log of a watch cannot be written, {said}", stacklevel=3)
            self._warned = True

    def _append(self, line: Mapping[str, Any]) -> None:
        self._waiting += json.dumps(plain(line)).encode() + b"\n"
        size = self.path.stat().st_size if self.path.exists() else 0
        if size + len(self._waiting) > LARGEST:
            raise OSError(errno.EFBIG, f"more than {LARGEST} bytes, a larger every= gives less")
        try:
            with self.path.open("ab") as file:
                file.write(self._waiting)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                os.truncate(self.path, size)  # no half of a line
            raise
        self._waiting = b""


def plain(value: Any) -> Any:
    """Numbers that JSON has: None in place of NaN and infinity."""
    if isinstance(value, Mapping):
        return {name: plain(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _lines(path: Path) -> Iterator[tuple[str, Any, int]]:
    """Where each whole line stands, in words; its content; the byte where it ends."""
    size = path.stat().st_size
    require(size <= LARGEST, "log", f"{path.name} of {size} bytes", f"at most {LARGEST}")
    end = 0
    with path.open("rb") as file:
        for number in range(1, LARGEST):
            line, where = file.readline(LONGEST + 1), f"log, line {number} of {path.name}"
            require(len(line) <= LONGEST, where, "a longer line", f"at most {LONGEST} bytes")
            if not line.endswith(b"\n"):  # the end, or a line that is being written
                return
            end += len(line)
            try:
                found = json.loads(line.decode("utf-8"), parse_constant=_no_number)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{where}: got {in_words(error)}, expected {EXPECTED}") from error
            yield where, found, end


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _words(where: str, words: Mapping[str, Any]) -> dict[str, Any]:
    """What a first line says of its model."""
    name, layers, heads = words["class"], words["layers"], words["heads"]
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
        _refuse(where, "class", name, "a name of at most 200 letters")
    _whole(where, words["parameters"], "parameters")
    _whole(where, layers, "layers", 1, MOST)
    for count in _list(where, heads, layers, "heads"):
        _whole(where, count, "heads", 1, MOST)
    return dict(words)


def _record(where: str, line: Any, heads: list[int]) -> Measured:
    """What a further line says, of a model with so many heads in each layer."""
    body = _object(where, line, ("step", "layers"), "a line")
    _whole(where, body["step"], "step")
    layers = zip(_list(where, body["layers"], len(heads), "layers"), heads, strict=True)
    return Measured(body["step"], tuple(_layer(where, layer, count) for layer, count in layers))


def _layer(where: str, layer: Any, count: int) -> Layer:
    body = _object(where, layer, ("residual", "diameter", "heads"), "a layer")
    heads = _list(where, body["heads"], count, "heads")
    residual, diameter = (_figure(where, body, name) for name in ("residual", "diameter"))
    return Layer(residual, diameter, tuple(_head(where, head) for head in heads))


def _head(where: str, head: Any) -> Head:
    body = _object(where, head, HEAD, "a head")
    return Head(*[_figure(where, body, name) for name in HEAD])


def _object(where: str, value: Any, names: tuple[str, ...], what: str) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != {*names}:
        _refuse(where, what, value, f"an object of {', '.join(names)}")
    return value


def _list(where: str, value: Any, length: int, what: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != length:
        _refuse(where, what, value, f"a list of {length}")
    return value


def _whole(where: str, value: Any, what: str, least: int = 0, most: int = 1 << 63) -> None:
    if type(value) is not int or not least <= value <= most:
        _refuse(where, what, value, f"a whole number from {least} to {most}")


def _figure(where: str, body: Mapping[str, Any], name: str) -> float:
    """A finite number; null stands for one that is none."""
    value = body[name]
    if value is None:
        return math.nan
    if type(value) not in (int, float) or abs(value) > sys.float_info.max:
        _refuse(where, name, value, "a finite number or null")
    return float(value)


def _refuse(where: str, what: str, value: Any, expected: str) -> NoReturn:
    given = value if isinstance(value, str | int | float) else type(value).__name__
    raise InputError(f"{where}: got {what} {shown(given)}, expected {expected}")
