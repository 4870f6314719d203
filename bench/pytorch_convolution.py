#!/usr/bin/env python3
"""PyTorch's convolutions (channels last) beside ours, for the rows that our benchmark prints.

    trireme bench kernels --family convolution --threads 2 --json | python3 bench/pytorch_convolution.py

Prints a line for each row: GFLOP/s of both, and ours over PyTorch's; then the same for each net, in
which every row counts as often as the net has it.
"""
import collections
import json
import re
import sys
import time

import torch

ROW = re.compile(r"(forward|dX|dW) (\w+) (\d+)x\d+/(\d+)\+(\d+) (\d+) -> (\d+), (\d+) of (\d+), "
                 r"(\d+) times")


def median_seconds(call):
    call()
    begin = time.perf_counter()
    call()
    samples = max(3, min(101, int(0.06 / (time.perf_counter() - begin))))
    seconds = []
    for _ in range(samples):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return sorted(seconds)[samples // 2]


def seconds_of(direction, dtype, size, stride, padding, channels, filters, images, extent):
    x = torch.randn(images, channels, extent, extent).to(dtype)
    w = torch.randn(filters, channels, size, size).to(dtype)
    x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
    y = torch.nn.functional.conv2d(x, w, None, stride, padding)
    dy = torch.randn_like(y).contiguous(memory_format=torch.channels_last)
    if direction == "forward":
        return median_seconds(lambda: torch.nn.functional.conv2d(x, w, None, stride, padding))
    wanted = [direction == "dX", direction == "dW", False]
    return median_seconds(lambda: torch.ops.aten.convolution_backward(
        dy, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, wanted))


def main():
    ours = json.load(sys.stdin)
    torch.set_num_threads(int(ours["threads"]))
    torch.set_grad_enabled(False)
    sums = collections.defaultdict(lambda: [0.0, 0.0])  # of a direction of a net, and of the net
    for row in ours["rows"]:
        match = ROW.fullmatch(row["shape"])
        if not match:
            continue
        direction, net, *numbers, times = match.groups()
        dtype = torch.bfloat16 if row["dtype"] == "bf16" else torch.float32
        theirs = seconds_of(direction, dtype, *map(int, numbers))
        for name in (f"{row['dtype']} {net} {direction}", f"{row['dtype']} {net}"):
            sums[name][0] += int(times) * row["seconds"]
            sums[name][1] += int(times) * theirs
        print(f"{row['dtype']} {row['shape']}: {row['rate'] / 1e9:.1f} and "
              f"{row['count'] / theirs / 1e9:.1f} GFLOP/s, {theirs / row['seconds']:.2f}")
    for name, (own, theirs) in sums.items():
        print(f"{name}: {theirs / own:.2f} of PyTorch's speed")


main()
