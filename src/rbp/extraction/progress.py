"""How far a measurement is: tokens a second, the time left, and how near to the machine's own rate."""

import sys
import time
from functools import cache
from typing import TextIO

import torch


class Progress:
    """Prints a line that renews itself on a terminal, and a line every half minute elsewhere.

    tokens: to be ranked in all; done: ranked by an earlier run; flops: the floating-point operations that one
    token takes at least (2 for each parameter and each entry of the output layer); rate: what the machine's
    matrix product does in a second.
    """

    def __init__(self, label: str, tokens: int, done: int, flops: float, rate: float, out: TextIO | None = None):
        self.label, self.tokens, self.flops, self.rate = label, tokens, flops, rate
        self.out = out or sys.stderr
        self.before = self.done = done
        self.start = time.monotonic()
        self.printed = self.start if not self.out.isatty() else 0.0

    def add(self, tokens: int) -> None:
        """So many tokens more are ranked."""
        self.done += tokens
        now = time.monotonic()
        terminal = self.out.isatty()
        if now - self.printed >= (0.2 if terminal else 30):
            self.printed = now
            self.out.write(f"\r{self.line()}\033[K" if terminal else f"{self.line()}\n")
            self.out.flush()

    def close(self) -> None:
        """Leave the last line standing."""
        self.out.write(f"\r{self.line()}\033[K\n" if self.out.isatty() else f"{self.line()}\n")
        self.out.flush()

    @property
    def tokens_per_second(self) -> float:
        """Of this run."""
        return (self.done - self.before) / max(time.monotonic() - self.start, 1e-9)

    @property
    def share_of_product(self) -> float:
        """The operations that are needed at least, a second, as a share of the matrix product's rate."""
        return self.tokens_per_second * self.flops / self.rate

    def line(self) -> str:
        """The state in one line."""
        speed = self.tokens_per_second
        left = (self.tokens - self.done) / speed if speed else float("inf")
        clock = "?" if left == float("inf") else f"{left // 60:.0f} min {left % 60:.0f} s"
        return (
            f"{self.label}  {self.done:,} of {self.tokens:,} tokens  {speed:,.0f} tokens/s"
            f"  {self.share_of_product:.0%} of the matrix product's rate" + (f"  {clock} left" if left else "")
        )


@cache
def product_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations a second of a square matrix product: a yardstick, measured once, in some ms."""
    n = 1024 if device.type == "cpu" else 8192
    a = torch.ones(n, n, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        (a @ a)[0, 0].item()  # which waits for the device
        best = min(best, time.perf_counter() - start)
    return 2 * n**3 / best
