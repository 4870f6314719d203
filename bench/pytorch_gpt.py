#!/usr/bin/env python3
"""A plain GPT in PyTorch, timed: the same model, batch, precision and threads as a configuration.

    python3 bench/pytorch_gpt.py configs/bench-gpt2-124m-4x64.toml --precision bf16 --compile

Prints one line of JSON. Precisions: fp32; autocast (fp32 weights under bf16 autocast); bf16 (bf16
weights and activations, fp32 master weights and moments).
"""
import argparse
import json
import os
import resource
import statistics
import time
import tomllib

import torch
import torch.nn as nn
import torch.nn.functional as F


def load_config(path):
    with open(path, "rb") as file:
        config = tomllib.load(file)
    model = {}
    if "preset" in config["model"]:
        root = os.path.dirname(os.path.dirname(os.path.abspath(path)))
        with open(os.path.join(root, "models", config["model"]["preset"] + ".toml"), "rb") as file:
            model = tomllib.load(file)["model"]
    config["model"] = {**model, **config["model"]}
    return config


class Gain(nn.Module):
    """LayerNorm or RMSNorm, with the parameters that the model has."""

    def __init__(self, model):
        super().__init__()
        width = model["d_model"]
        self.rms = model.get("norm") == "rms_norm"
        has_gain, has_bias = model.get("norm_gain", True), model.get("bias", True)
        self.weight = nn.Parameter(torch.ones(width)) if has_gain else None
        self.bias = nn.Parameter(torch.zeros(width)) if has_gain and has_bias else None

    def forward(self, x):
        if self.rms:
            return F.rms_norm(x, x.shape[-1:], self.weight, 1e-5)
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, 1e-5)


class Block(nn.Module):
    def __init__(self, model):
        super().__init__()
        width, bias = model["d_model"], model.get("bias", True)
        d_ff = model.get("d_ff", 4 * width)
        self.heads = model["heads"]
        self.relu = model.get("activation") == "relu"
        self.norm1, self.norm2 = Gain(model), Gain(model)
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.up = nn.Linear(width, d_ff, bias=bias)
        self.down = nn.Linear(d_ff, width, bias=bias)

    def forward(self, x):
        B, S, C = x.shape
        q, k, v = (y.view(B, S, self.heads, C // self.heads).transpose(1, 2)
                   for y in self.qkv(self.norm1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, S, C))
        u = self.up(self.norm2(x))
        return x + self.down(F.relu(u) if self.relu else F.gelu(u, approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.tokens = nn.Embedding(model["vocab_size"], model["d_model"])
        self.positions = nn.Embedding(model["seq_len"], model["d_model"])
        self.first = Gain(model) if model.get("embedding_norm") else nn.Identity()
        self.blocks = nn.ModuleList(Block(model) for _ in range(model["layers"]))
        self.last = Gain(model) if model.get("final_norm", True) else nn.Identity()
        self.head = nn.Linear(model["d_model"], model["vocab_size"], bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
        if model.get("tied_head", True):
            self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.last(x))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class Training:
    def __init__(self, config, precision, compiled):
        model, optim = config["model"], config.get("optim", {})
        shape = (config["batch"]["global_sequences"], model["seq_len"] + 1)
        torch.manual_seed(1)
        self.batch = torch.randint(model["vocab_size"], shape)
        self.num_tokens = shape[0] * model["seq_len"]
        self.precision = precision
        self.clip_norm = optim.get("clip_norm", 1.0)
        self.gpt = Gpt(model)
        self.params = list(self.gpt.parameters())
        self.masters = self.params
        if precision == "bf16":
            self.masters = [p.detach().clone() for p in self.params]
            self.gpt.to(torch.bfloat16)
            self.params = list(self.gpt.parameters())
            for master in self.masters:
                master.grad = torch.zeros_like(master)
        self.optimizer = torch.optim.AdamW(
            [{"params": [p for p in self.masters if p.dim() == 2], "weight_decay": 0.1},
             {"params": [p for p in self.masters if p.dim() == 1], "weight_decay": 0.0}],
            lr=6e-4, betas=(0.9, 0.95), fused=True)
        self.loss_of = torch.compile(self.gpt) if compiled else self.gpt

    def forward(self):
        inputs, targets = self.batch[:, :-1], self.batch[:, 1:]
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "autocast"):
            return self.loss_of(inputs, targets)

    def step(self):
        loss = self.forward()
        loss.backward()
        if self.precision == "bf16":
            torch._foreach_copy_([m.grad for m in self.masters], [p.grad for p in self.params])
        if self.clip_norm > 0:
            torch.nn.utils.clip_grad_norm_(self.masters, self.clip_norm)
        self.optimizer.step()
        if self.precision == "bf16":
            with torch.no_grad():
                torch._foreach_copy_(self.params, self.masters)
        for p in self.params:
            p.grad = None
        return loss.item()

    def activation_bytes(self):
        """Storage that autograd keeps between forward and backward, parameters left out."""
        parameters = {p.untyped_storage().data_ptr() for p in self.params}
        kept = {}

        def pack(tensor):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in parameters:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = self.forward()
        loss.backward()
        for p in self.params:
            p.grad = None
        return sum(kept.values())


def resident_bytes():
    """The most that this process has had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--precision", choices=["fp32", "autocast", "bf16"], default="bf16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    libraries = resident_bytes()
    training = Training(load_config(args.config), args.precision, args.compile)
    for _ in range(3):
        loss = training.step()
    seconds = []
    end = time.perf_counter() + args.seconds
    while len(seconds) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        loss = training.step()
        seconds.append(time.perf_counter() - begin)
    step_s = statistics.median(seconds)
    rss = resident_bytes()
    print(json.dumps({
        "program": "pytorch", "config": args.config, "torch": torch.__version__,
        "compute": args.precision + (" compiled" if args.compile else ""),
        "threads": args.threads, "step_s": step_s, "tokens_per_s": training.num_tokens / step_s,
        "loss": loss, "rss_bytes": rss, "library_bytes": libraries,
        "activation_bytes": 0 if args.compile else training.activation_bytes()}))


if __name__ == "__main__":
    main()
