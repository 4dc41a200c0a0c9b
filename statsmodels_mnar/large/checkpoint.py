"""A checkpoint of a fit: the sums over rows that it has made, and marks of the rows.

A mark is a sum over the rows of a hash of a value and the row's place in the data, modulo 2^64. So
it does not depend on the order in which rows are read, on how they are cut into partitions or on
who reads them, and it changes where a value does, or where two rows exchange theirs.

An optimiser is a function of these sums, so a fit that starts again with the journal of an
interrupted one goes through the same steps at no cost until it needs a sum that is not there, and
ends in the same digits.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sys
import zipfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..kernel.rows import Rows
from ..tools import written_whole

Marks = dict[str, tuple[int, ...]]
"""Fingerprints of arrays, by the name of what they are of: one for each column or field."""

# Of splitmix64, as signed integers of 64 bits.
_STEP, _FIRST, _SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15

_BLOCK = 2**13  # rows whose columns stay in cache

_FIELDS = {
    "the outcome or the selection indicator": ("sign", "floor", "gain", "tilt"),
    "the covariates of the outcome equation": ("X",),
    "the covariates of the selection equation": ("W",),
    "the offsets": ("offset", "offset_select"),
    "the weights": ("weight",),
    "the levels of a penalised term": ("level",),
}


def marks_of(rows: Rows) -> Marks:
    """Marks of everything that the likelihood reads of these rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.ones((2, 1))
    >>> s = np.ones(2)
    >>> one, other = (Rows.build(X, X, np.array(y), s) for y in ([1.0, 0.0], [0.0, 1.0]))
    >>> [what for what in marks_of(one) if marks_of(one)[what] != marks_of(other)[what]]
    ['the outcome or the selection indicator']
    """
    fields = {
        what: [torch.atleast_2d(getattr(rows, name)).double() for name in names]
        for what, names in _FIELDS.items()
        if getattr(rows, names[0]) is not None
    }
    found = {
        what: torch.zeros(sum(map(len, own)), dtype=torch.int64) for what, own in fields.items()
    }
    for start in range(0, rows.n, _BLOCK):
        cut = slice(start, start + _BLOCK)
        place = _mixed(rows.key[cut] * _STEP)
        for what, own in fields.items():
            found[what] += _sums(torch.cat([field[:, cut] for field in own]), place).cpu()
    return {what: tuple(v % 2**64 for v in sums.tolist()) for what, sums in found.items()}


def sum_of(*marks: tuple[int, ...]) -> tuple[int, ...]:
    """Marks of all rows from those of parts of them."""
    return tuple(sum(each) % 2**64 for each in zip(*marks, strict=True))


def _sums(field: Tensor, place: Tensor) -> Tensor:
    """Sums of the hashes of each line of the field, (m, n), which is overwritten."""
    number = torch.arange(len(field), device=field.device)[:, None] * _FIRST
    bits = field.add_(0.0).view(torch.int64)  # -0.0 is 0.0
    return _mixed(bits.bitwise_xor_(place).add_(number)).sum(-1)


def _mixed(bits: Tensor) -> Tensor:
    """A permutation of the integers of 64 bits in which every bit moves every other one."""
    bits = bits.bitwise_xor_(bits >> 30).mul_(_FIRST)
    bits = bits.bitwise_xor_(bits >> 27).mul_(_SECOND)
    return bits.bitwise_xor_(bits >> 31)


# -- A checkpoint of a fit: the sums over rows that it has made ------------------------------------


Sums = tuple[np.ndarray, ...]
Fingerprint = dict[str, list[int]]
"""Numbers that tell rows from others, by what they were made of, in words."""


class Journal:
    """Sums by the signature of what was asked, in a file that is always whole.

    Parameters
    ----------
    path : str or Path
        Read if it exists. Each new sum replaces the file by a longer one in one step.
    fingerprint : dict
        Of the rows; a journal of other rows is refused, with what is different.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> rows = {"the labels": [1]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Journal(f"{folder}/fit.npz", rows)["a"] = (np.ones(2),)
    ...     Journal(f"{folder}/fit.npz", rows)["a"]
    (array([1., 1.]),)
    """

    def __init__(self, path: str | Path, fingerprint: Fingerprint) -> None:
        self.path, self.fingerprint = Path(path), fingerprint
        self._sums: dict[str, Sums] = {}
        if not self.path.parent.is_dir():
            raise ValueError(
                f"checkpoint={str(path)!r} cannot be written: the folder "
                f"{str(self.path.parent)!r} does not exist; make it, or name another file"
            )
        if self.path.is_dir():
            raise ValueError(f"checkpoint={str(path)!r} is a folder; name a file in it")
        if self.path.exists():
            self._read()
        _sweep(self.path)

    def _read(self) -> None:
        try:
            owner, self._sums = _stored(self.path)
        except Exception as error:  # whatever zipfile and numpy make of the bytes of another file
            size = self.path.stat().st_size
            why = f"it ends after {size} bytes" if size < 22 else f"{type(error).__name__}: {error}"
            raise ValueError(
                f"checkpoint={str(self.path)!r} is not a checkpoint file of this version, or only "
                f"part of one ({why}); delete it to start over, or name another file"
            ) from error
        if owner != self.fingerprint:
            raise ValueError(
                f"checkpoint={str(self.path)!r} is of a fit to other data: "
                f"{_difference(owner, self.fingerprint)}. Delete it to start over, or name another "
                "file"
            )

    def __contains__(self, key: str) -> bool:
        return key in self._sums

    def __len__(self) -> int:
        return len(self._sums)

    def __getitem__(self, key: str) -> Sums:
        return self._sums[key]

    def __setitem__(self, key: str, sums: Sums) -> None:
        self._sums[key] = sums
        stored: dict[str, Any] = {
            f"{k}.{i}.{len(sums)}": v for k, sums in self._sums.items() for i, v in enumerate(sums)
        }
        with written_whole(self.path) as beside, beside.open("wb") as file:
            np.savez(file, fingerprint=np.array(json.dumps(self.fingerprint)), **stored)
            file.flush()
            os.fsync(file.fileno())


def _sweep(path: Path) -> None:
    """Remove what a process that was killed while it wrote has left beside the file."""
    for beside in path.parent.glob(f"{glob.escape(path.name)}.*.tmp"):
        pid = beside.name.removeprefix(f"{path.name}.").partition(".")[0]
        if pid.isdecimal() and not _runs(int(pid)):
            beside.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    if sys.platform == "win32":  # where asking would end it
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True


def _stored(path: Path) -> tuple[Fingerprint, dict[str, Sums]]:
    """Fingerprint and sums of a file that is whole."""
    with zipfile.ZipFile(path) as archive:
        broken = archive.testzip()
        if broken is not None:
            raise ValueError(f"{broken} is damaged")
    with np.load(path, allow_pickle=False) as stored:
        found = {name: stored[name] for name in stored.files}
    owner = json.loads(str(found.pop("fingerprint")))
    if not isinstance(owner, dict):
        raise ValueError("it has another fingerprint")
    parts: dict[str, dict[int, np.ndarray]] = {}
    counts: dict[str, int] = {}
    for name, value in found.items():
        key, place, count = name.rsplit(".", 2)
        parts.setdefault(key, {})[int(place)] = value
        counts[key] = int(count)
    if any(sorted(part) != list(range(counts[key])) for key, part in parts.items()):
        raise ValueError("it lacks some of its sums")
    return owner, {key: tuple(part[i] for i in sorted(part)) for key, part in parts.items()}


def _difference(stored: Fingerprint, given: Fingerprint) -> str:
    """What differs, in words; the first of them where it changes all that follow."""
    different = [what for what in given if stored.get(what) != given[what]]
    first = different[0] if different else "what was marked"
    if first.startswith("the number"):
        return f"{first} differ{'s' if first == 'the number of rows' else ''} " + (
            f"({_numbers(stored.get(first, []))} there, {_numbers(given.get(first, []))} here)"
        )
    *most, last = different or [first]
    names = f"{', '.join(most)} and {last}" if most else last
    return f"{names} have other values, or the rows another order"


def _numbers(values: list[int]) -> str:
    return ", ".join(f"{value:,}" for value in values) or "unknown"


def signature(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return a text that is the same for the same call, in any process."""
    digest = hashlib.sha256(f"{function.__module__}.{function.__qualname__}".encode())
    for arg in args:
        digest.update(_canonical(arg))
    return digest.hexdigest()


def _canonical(arg: Any) -> bytes:
    """Bytes that differ where the values differ, in any digit."""
    if isinstance(arg, Tensor):
        arg = arg.cpu().numpy()
    name = type(arg).__qualname__
    if isinstance(arg, np.ndarray):
        return _framed(f"{arg.dtype}{arg.shape}", np.ascontiguousarray(arg).tobytes())
    if isinstance(arg, tuple):
        return _framed(name, *(_canonical(value) for value in arg))
    if is_dataclass(arg):  # not its repr, which shortens arrays
        own = [field.name for field in fields(arg) if field.compare]
        return _framed(name, *(_canonical(getattr(arg, field)) for field in own))
    if isinstance(arg, str | int | float | np.generic | None):
        return _framed(name, repr(arg).encode())
    if vars(arg):
        raise TypeError(f"{name} has no signature")
    return _framed(name)  # a link


def _framed(name: str, *parts: bytes) -> bytes:
    """The parts with their lengths, so that no two lists of parts look the same."""
    return b"".join(f"{len(part)}:".encode() + part for part in (name.encode(), *parts))
