"""A checkpoint of a fit: the sums over rows that it has made.

An optimiser is a function of these sums, so a fit that starts again with the journal of an
interrupted one goes through the same steps at no cost until it needs a sum that is not there, and
ends in the same digits.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

Sums = tuple[np.ndarray, ...]


class Journal:
    """Sums by the signature of what was asked, in a file that is always whole.

    Parameters
    ----------
    path : str or Path
        Read if it exists. Each new sum replaces the file by a longer one in one step.
    fingerprint : str
        Of the rows; a journal of other rows is refused.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Journal(f"{folder}/fit.npz", "rows")["a"] = (np.ones(2),)
    ...     Journal(f"{folder}/fit.npz", "rows")["a"]
    (array([1., 1.]),)
    """

    def __init__(self, path: str | Path, fingerprint: str) -> None:
        self.path, self.fingerprint = Path(path), fingerprint
        self._sums: dict[str, Sums] = {}
        if not self.path.parent.is_dir():
            raise ValueError(f"checkpoint={str(path)!r}: its folder does not exist")
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                found = {name: stored[name] for name in stored.files}
            owner = str(found.pop("fingerprint"))
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(f"checkpoint={str(self.path)!r} is not one ({error})") from error
        if owner != self.fingerprint:
            raise ValueError(
                f"checkpoint={str(self.path)!r} is of a fit to other rows; delete it, or name "
                "another file"
            )
        for name, value in found.items():
            key = name.rpartition(".")[0]
            self._sums[key] = (*self._sums.get(key, ()), value)

    def __contains__(self, key: str) -> bool:
        return key in self._sums

    def __len__(self) -> int:
        return len(self._sums)

    def __getitem__(self, key: str) -> Sums:
        return self._sums[key]

    def __setitem__(self, key: str, sums: Sums) -> None:
        self._sums[key] = sums
        stored: dict[str, Any] = {
            f"{k}.{i}": v for k, sums in self._sums.items() for i, v in enumerate(sums)
        }
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        try:
            with beside.open("wb") as file:
                np.savez(file, fingerprint=np.array(self.fingerprint), **stored)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        finally:
            beside.unlink(missing_ok=True)


def signature(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """The same for the same call, in any process."""
    digest = hashlib.sha256(f"{function.__module__}.{function.__qualname__}".encode())
    for arg in args:
        digest.update(_canonical(arg))
    return digest.hexdigest()


def _canonical(arg: Any) -> bytes:
    if isinstance(arg, Tensor):
        arg = arg.cpu().numpy()
    name = type(arg).__qualname__
    if isinstance(arg, np.ndarray):
        return f"{arg.dtype}{arg.shape}".encode() + np.ascontiguousarray(arg).tobytes()
    if isinstance(arg, tuple):
        return name.encode() + b",".join(_canonical(value) for value in arg)
    if is_dataclass(arg) or isinstance(arg, str | int | float | None):
        return f"{name}{arg!r}".encode()
    if vars(arg):
        raise TypeError(f"{name} has no signature")
    return name.encode()  # a link
