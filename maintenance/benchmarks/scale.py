"""A large model: shares and residuals against its own forward pass, in time and in memory; a watch.

    python -m benchmarks.scale LAYERS HEADS WIDTH TOKENS    (one size, in this process)

The model is one of GPT-2's shape with random weights. Its forward pass is that of the model which
is looked at: the same module, in the same float64, with visible attention matrices. The process
does nothing else, so its largest resident memory is that of model, copy, pass and tables.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.result import Result

ROOT = Path(__file__).resolve().parents[1]
SIZE = (24, 16, 1024, 1024)  # layers, heads, width, tokens
TIMES, GIB = 12.0, 16.0
FORWARDS = 3
WATCHED = (12, 12, 768, 512)  # of the model that a watch measures
WATCH_TIMES, WATCH_MEMORY = 1.5, 1.3  # of a forward pass


def model(layers: int, heads: int, width: int, tokens: int) -> Any:
    """A GPT-2 with random weights and few words."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    shape = GPT2Config(
        vocab_size=512,
        bos_token_id=1,
        eos_token_id=2,
        n_layer=layers,
        n_head=heads,
        n_embd=width,
        n_positions=tokens,
    )
    return GPT2Model(shape)


def measured(layers: int, heads: int, width: int, tokens: int) -> dict[str, float]:
    """Seconds of the best forward pass and of the report, peak memory in GiB, error over bound."""
    import torch

    from attninspect.forward import Subject
    from attninspect.inspect_model import inspect_subject

    subject = Subject.of(model(layers, heads, width, tokens))
    ids = torch.randint(512, (1, tokens), generator=torch.Generator().manual_seed(1))
    passes = []
    with torch.no_grad():
        for _ in range(FORWARDS):
            start = time.perf_counter()
            subject.model(input_ids=ids, use_cache=False)
            passes.append(time.perf_counter() - start)
    start = time.perf_counter()
    found = inspect_subject(subject, ids, brief=True)
    seconds = time.perf_counter() - start
    unit = 2.0**10 if sys.platform == "darwin" else 1.0  # there ru_maxrss is in bytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit / 2**20
    worst = found.proof["largest_error_over_bound"]
    return {"forward": min(passes), "report": seconds, "GiB": peak, "error over bound": worst}


def results(size: tuple[int, int, int, int] = SIZE) -> list[Result]:
    """Time and memory of one size against the bars, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", *map(str, size)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    found = json.loads(done.stdout)
    ratio = found["report"] / found["forward"]
    name = "{} layers, {} heads, width {}, {} tokens".format(*size)
    told = f"{ratio:.1f} times the time ({found['report']:.1f} s, {found['forward']:.1f} s)"
    return [
        Result(f"shares and residuals, {name}", told, f"<= {TIMES:g}", ratio <= TIMES),
        Result("peak memory", f"{found['GiB']:.1f} GiB", f"<= {GIB:g} GiB", found["GiB"] <= GIB),
    ]


def watched(size: tuple[int, int, int, int] = WATCHED) -> list[Result]:
    """A measured step of a watch against forward passes of the same model, in turn.

    Memory: all weights and the tensors that live at once in the call. A forward pass without
    gradients is the least that any step of a training needs.
    """
    import torch

    import attnverify as av
    from benchmarks.memory import peak_bytes

    subject, tokens = model(*size), size[-1]
    ids = torch.randint(512, (1, tokens), generator=torch.Generator().manual_seed(1))
    watch, step = av.Watch(subject, every=1, tokens=tokens), iter(range(1000))

    @torch.no_grad()
    def forward() -> None:
        subject(input_ids=ids)

    def measure() -> None:
        watch.step(next(step), ids)

    times: dict[object, list[float]] = {forward: [], measure: []}
    for call in [forward, measure] * (FORWARDS + 1):
        start = time.perf_counter()
        call()
        times[call].append(time.perf_counter() - start)
    one, other = (sorted(found[1:])[FORWARDS // 2] for found in times.values())  # without the first
    weights = sum(p.numel() * p.element_size() for p in subject.parameters())
    share = (weights + peak_bytes(measure)) / (weights + peak_bytes(forward))
    name = "a measured step of a watch, {} layers, {} heads, width {}, {} tokens".format(*size)
    told = f"{other / one:.2f} times the time ({other:.2f} s, {one:.2f} s)"
    return [
        Result(name, told, f"<= {WATCH_TIMES:g}", other / one <= WATCH_TIMES),
        Result("its memory", f"{share:.2f} times", f"<= {WATCH_MEMORY:g}", share <= WATCH_MEMORY),
    ]


if __name__ == "__main__":
    layers, heads, width, tokens = map(int, sys.argv[1:])
    print(json.dumps(measured(layers, heads, width, tokens)))
