#!/usr/bin/env python3
"""A net of images in PyTorch, timed: the same net, batch and threads as a configuration.

    python3 bench/pytorch_image_net.py configs/bench-resnet50.toml --precision bf16 --compile

Prints one line of JSON. Images are channels last. Precisions: fp32; autocast (fp32 weights under
bf16 autocast); bf16 (bf16 weights and activations, fp32 master weights and momentum).
"""
import argparse
import json
import os
import statistics
import time
import tomllib

import torch
import torch.nn as nn
import torch.nn.functional as F


class Bottleneck(nn.Module):
    def __init__(self, channels, inner, stride):
        super().__init__()
        filters = 4 * inner
        self.conv1 = nn.Conv2d(channels, inner, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, filters, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(filters)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != filters:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False),
                                          nn.BatchNorm2d(filters))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = F.relu(self.norm2(self.conv2(y)), inplace=True)
        return F.relu(self.norm3(self.conv3(y)) + self.shortcut(x), inplace=True)


def resnet50(classes):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for inner, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and inner > 64 else 1
            layers.append(Bottleneck(channels, inner, stride))
            channels = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, classes))


def relu_convolutions(channels, filters):
    """VGG's windows of 3 x 3; 0: a pool."""
    layers = []
    for count in filters:
        if count == 0:
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(channels, count, 3, 1, 1), nn.ReLU(inplace=True)]
            channels = count
    return layers


def dense_layers(features, classes):
    return [nn.Flatten(), nn.Linear(features, 4096), nn.ReLU(inplace=True),
            nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, classes)]


def vgg16(classes):
    filters = [64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0]
    return nn.Sequential(*relu_convolutions(3, filters), *dense_layers(512 * 7 * 7, classes))


def alexnet(classes):
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        *relu_convolutions(192, [384, 256, 256]), nn.MaxPool2d(3, 2),
        *dense_layers(256 * 6 * 6, classes))


NETS = {"resnet50": resnet50, "vgg16": vgg16, "alexnet": alexnet}


class Training:
    def __init__(self, config, precision, compiled):
        model = config["model"]
        size, images = model["image_size"], config["batch"]["micro_sequences"]
        torch.manual_seed(1)
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self.images = torch.randn(images, 3, size, size).to(
            dtype=dtype, memory_format=torch.channels_last)
        self.classes = torch.randint(model["vocab_size"], (images,))
        self.precision = precision
        self.net = NETS[model["family"]](model["vocab_size"])
        self.net.to(memory_format=torch.channels_last)
        self.params = list(self.net.parameters())
        self.masters = self.params
        if precision == "bf16":
            self.masters = [p.detach().clone() for p in self.params]
            self.net.to(torch.bfloat16)
            self.params = list(self.net.parameters())
            for master in self.masters:
                master.grad = torch.zeros_like(master)
        optim = config["optim"]
        assert optim["name"] == "sgd" and optim["clip_norm"] == 0.0, "other updates are not compared"
        self.optimizer = torch.optim.SGD(self.masters, lr=optim["lr"], momentum=0.9,
                                         weight_decay=optim["weight_decay"], fused=True)
        self.run = torch.compile(self.net) if compiled else self.net

    def step(self):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "autocast"):
            logits = self.run(self.images)
        loss = F.cross_entropy(logits.float(), self.classes)
        loss.backward()
        if self.precision == "bf16":
            torch._foreach_copy_([m.grad for m in self.masters], [p.grad for p in self.params])
        self.optimizer.step()
        if self.precision == "bf16":
            with torch.no_grad():
                torch._foreach_copy_(self.params, self.masters)
        for p in self.params:
            p.grad = None
        return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--precision", choices=["fp32", "autocast", "bf16"], default="bf16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    with open(args.config, "rb") as file:
        training = Training(tomllib.load(file), args.precision, args.compile)
    for _ in range(2):
        loss = training.step()
    seconds = []
    for _ in range(args.steps):
        begin = time.perf_counter()
        loss = training.step()
        seconds.append(time.perf_counter() - begin)
    step_s = statistics.median(seconds)
    print(json.dumps({
        "program": "pytorch", "config": args.config, "torch": torch.__version__,
        "compute": args.precision + (" compiled" if args.compile else ""),
        "threads": args.threads, "step_s": step_s,
        "tokens_per_s": training.images.shape[0] / step_s, "loss": loss}))


if __name__ == "__main__":
    main()
