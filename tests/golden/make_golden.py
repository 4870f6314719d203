#!/usr/bin/env python3
"""Writes the fixtures of golden_test.cc: what small models do, computed by PyTorch in double.

    python3 tests/golden/make_golden.py tests/golden [MODEL]...

It shares nothing with the C++ code but the formulas of the models, the names of the parameters and
the closed form of their values, so the fixtures hold results only. Weights and tokens are multiples
of a power of two that fp32 represents exactly.
"""
import json
import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)

VOCAB, SEQ, SEQUENCES, LAYERS, WIDTH, HEADS = 61, 16, 3, 2, 32, 4
IGNORED = (1, 5)  # (sequence, position) whose target does not count
LOGIT_POSITIONS = [(0, 0), (1, 7), (2, 15)]
OPTIM = dict(betas=(0.9, 0.95), eps=1e-5, weight_decay=0.1)
LEARNING_RATES = [0.004, 0.002, 0.001]
CLIP_NORM = 0.5
WHOLE_UP_TO = 64  # elements; larger tensors are kept as projections and samples
PROJECTIONS, SAMPLES = 4, 24

MODELS = {
    "gpt2": dict(family="gpt2", d_ff=128, tied=True),
    "gpt2_erf": dict(family="gpt2", d_ff=128, tied=False, gelu="none"),
    "llama": dict(family="llama", d_ff=96, kv_heads=2),
    "llama3": dict(family="llama", d_ff=96, kv_heads=2, scaling=(8.0, 1.0, 4.0, 64)),
    "microgpt": dict(family="microgpt", d_ff=128),
    "moe_softmax": dict(family="moe", d_ff=24, kv_heads=2, experts=4, top_k=2, aux=0.02, z=0.01),
    "moe_sigmoid": dict(family="moe", d_ff=16, kv_heads=2, experts=8, top_k=3, aux=0.05, shared=2,
                        groups=4, top_groups=2, rate=0.03, sigmoid=True),
}
ROTARY = ("llama", "moe")
# Widths of latent attention, and the numbers of YaRN: factor, slow, fast, original length, mscale.
MODELS["llama_qk_norm"] = dict(family="llama", d_ff=96, kv_heads=2, qk_norm=True, window=6)
MODELS["moe_latent"] = dict(family="moe", d_ff=16, kv_heads=HEADS, experts=4, top_k=2, aux=0.05,
                            shared=1, rate=0.03, sigmoid=True, scaled=2.5,
                            latent=dict(q=20, kv=12, nope=6, rope=4, value=5),
                            yarn=(4.0, 1.0, 8.0, 32, 0.7))


# --- The closed form of weights, tokens, projections and samples ---------------------------------

def fnv1a(text):
    h = 2166136261
    for byte in text.encode():
        h = ((h ^ byte) * 16777619) & 0xFFFFFFFF
    return h


def hashed(stream, count):
    """32 bits for every index 0 .. count - 1 of a named stream."""
    h = (np.arange(count, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(fnv1a(stream)))
    h &= np.uint64(0xFFFFFFFF)
    for shift, factor in ((15, 2246822519), (13, 3266489917)):
        h ^= h >> np.uint64(shift)
        h = (h * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return h ^ (h >> np.uint64(16))


def unit(stream, count):
    """Multiples of 2^-11 in [-1, 1)."""
    return (hashed(stream, count) >> np.uint64(20)).astype(np.float64) / 2048.0 - 1.0


def make_tokens():
    """[SEQUENCES][SEQ + 1]"""
    raw = hashed("tokens", SEQUENCES * (SEQ + 1)) % np.uint64(VOCAB)
    return torch.tensor(raw.astype(np.int64)).reshape(SEQUENCES, SEQ + 1)


def make_params(shapes):
    params = {}
    for name, shape in shapes.items():
        values = unit(name, math.prod(shape)).reshape(shape)
        if name.endswith(".gain"):
            values = 1.0 + values / 4.0
        else:
            values = values / (4.0 if len(shape) == 2 else 8.0)
        params[name] = torch.tensor(values, requires_grad=True)
    return params


def summary(name, tensor):
    """What a fixture keeps of a tensor."""
    flat = tensor.detach().reshape(-1).numpy()
    kept = {"norm": float(np.linalg.norm(flat))}
    if flat.size <= WHOLE_UP_TO:
        return {**kept, "whole": flat.tolist()}
    signs = [1.0 - 2.0 * (hashed(f"{name}/projection{p}", flat.size) >> np.uint64(31))
             for p in range(PROJECTIONS)]
    picks = (hashed(f"{name}/samples", SAMPLES) % np.uint64(flat.size)).astype(np.int64)
    return {**kept, "projections": [float(s.astype(np.float64) @ flat) for s in signs],
            "samples": flat[picks].tolist()}


# --- The models ----------------------------------------------------------------------------------

def param_shapes(model):
    family, d_ff = model["family"], model["d_ff"]
    kv_width = model.get("kv_heads", HEADS) * WIDTH // HEADS
    gpt2, gains = family == "gpt2", family != "microgpt"
    shapes = {"embedding.tokens": (VOCAB, WIDTH)}
    if family not in ROTARY:
        shapes["embedding.positions"] = (SEQ, WIDTH)

    def norm(name):
        if gains:
            shapes[name + ".gain"] = (WIDTH,)
        if gpt2:
            shapes[name + ".bias"] = (WIDTH,)

    def linear(layer, weight, rows, cols):
        shapes[f"{layer}.w{weight}"] = (rows, cols)
        if gpt2:
            shapes[f"{layer}.b{weight}"] = (rows,)

    for i in range(LAYERS):
        norm(f"layers.{i}.norm1")
        if "latent" in model:
            latent_shapes(shapes, model["latent"], f"layers.{i}.attn.")
        else:
            linear(f"layers.{i}.attn", "q", WIDTH, WIDTH)
            linear(f"layers.{i}.attn", "k", kv_width, WIDTH)
            linear(f"layers.{i}.attn", "v", kv_width, WIDTH)
            if model.get("qk_norm"):
                shapes[f"layers.{i}.attn.q_norm.gain"] = (WIDTH // HEADS,)
                shapes[f"layers.{i}.attn.k_norm.gain"] = (WIDTH // HEADS,)
            linear(f"layers.{i}.attn", "o", WIDTH, WIDTH)
        norm(f"layers.{i}.norm2")
        if family == "moe":
            expert_shapes(shapes, model, f"layers.{i}.mlp")
            continue
        if family == "llama":
            linear(f"layers.{i}.mlp", "_gate", d_ff, WIDTH)
        linear(f"layers.{i}.mlp", "_up", d_ff, WIDTH)
        linear(f"layers.{i}.mlp", "_down", WIDTH, d_ff)
    if family != "microgpt":
        norm("final_norm")
    if not model.get("tied", False):
        shapes["head.weight"] = (VOCAB, WIDTH)
    return shapes


def latent_shapes(shapes, widths, layer):
    q, kv, nope, rope, value = (widths[w] for w in ("q", "kv", "nope", "rope", "value"))
    shapes[layer + "wq_down"] = (q, WIDTH)
    shapes[layer + "wkv_down"] = (kv, WIDTH)
    shapes[layer + "shared.wk"] = (rope, WIDTH)
    shapes[layer + "q_norm.gain"] = (q,)
    shapes[layer + "kv_norm.gain"] = (kv,)
    shapes[layer + "wq_up"] = (HEADS * (nope + rope), q)
    shapes[layer + "wk_up"] = (HEADS * nope, kv)
    shapes[layer + "wv_up"] = (HEADS * value, kv)
    shapes[layer + "wo"] = (WIDTH, HEADS * value)


def expert_shapes(shapes, model, layer):
    shapes[layer + ".router"] = (model["experts"], WIDTH)
    if "rate" in model:
        shapes[layer + ".router_bias"] = (model["experts"],)
    widths = {"shared": model.get("shared", 0) * model["d_ff"]}
    widths.update({f"experts.{e}": model["d_ff"] for e in range(model["experts"])})
    for name, width in widths.items():
        if width > 0:
            shapes[f"{layer}.{name}.w_gate"] = (width, WIDTH)
            shapes[f"{layer}.{name}.w_up"] = (width, WIDTH)
            shapes[f"{layer}.{name}.w_down"] = (WIDTH, width)


def yarn(frequencies, numbers):
    """Peng et al. 2023: by parts, between whole pairs."""
    factor, slow, fast, original, _ = numbers
    pairs = len(frequencies)

    def pair_of(turns):
        return pairs * math.log(original / (turns * 2.0 * math.pi)) / math.log(10000.0)

    low, high = max(math.floor(pair_of(fast)), 0), min(math.ceil(pair_of(slow)), 2 * pairs - 1)
    ramp = ((torch.arange(pairs, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
    return frequencies / factor * ramp + frequencies * (1.0 - ramp)


def rotary_angles(model, head_dim):
    """[SEQ][head_dim / 2]"""
    frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
    if "scaling" in model:
        factor, low, high, original = model["scaling"]
        scaled = []
        for frequency in frequencies.tolist():
            wavelength = 2.0 * math.pi / frequency
            if wavelength < original / high:
                scaled.append(frequency)
            elif wavelength > original / low:
                scaled.append(frequency / factor)
            else:
                smooth = (original / wavelength - low) / (high - low)
                scaled.append((1.0 - smooth) * frequency / factor + smooth * frequency)
        frequencies = torch.tensor(scaled)
    if "yarn" in model:
        frequencies = yarn(frequencies, model["yarn"])
    # The table of the C++ code is fp32.
    return torch.outer(torch.arange(SEQ, dtype=torch.float64), frequencies)


def rotate(x, angles):
    """Rotate-half: pair (j, j + D/2) of x[..., t, :] turns by angles[t, j]."""
    cos = angles.cos().float().double()
    sin = angles.sin().float().double()
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Model:
    def __init__(self, spec):
        self.spec = spec
        self.params = make_params(param_shapes(spec))
        turned = spec["latent"]["rope"] if "latent" in spec else WIDTH // HEADS
        self.angles = rotary_angles(spec, turned)

    def norm(self, x, name):
        p = self.params
        if self.spec["family"] == "gpt2":
            return F.layer_norm(x, (WIDTH,), p[name + ".gain"], p[name + ".bias"], eps=1e-5)
        return F.rms_norm(x, (WIDTH,), p.get(name + ".gain"), eps=1e-5)

    def linear(self, x, layer, weight):
        p = self.params
        return F.linear(x, p[f"{layer}.w{weight}"], p.get(f"{layer}.b{weight}"))

    def scores_mask(self):
        """True where a query sees a key."""
        behind = torch.arange(SEQ).unsqueeze(1) - torch.arange(SEQ).unsqueeze(0)
        return (behind >= 0) & (behind < self.spec.get("window", SEQ))

    def latent_attention(self, x, layer):
        p, widths = self.params, self.spec["latent"]
        nope, rope, value = widths["nope"], widths["rope"], widths["value"]
        name = layer + "."

        def inner_norm(y, norm):
            return F.rms_norm(y, (y.shape[-1],), p[f"{name}{norm}.gain"], eps=1e-5)

        def heads(y):
            return y.reshape(SEQUENCES, SEQ, HEADS, -1).transpose(1, 2)

        q = heads(F.linear(inner_norm(F.linear(x, p[name + "wq_down"]), "q_norm"),
                           p[name + "wq_up"]))
        latent = inner_norm(F.linear(x, p[name + "wkv_down"]), "kv_norm")
        shared = rotate(F.linear(x, p[name + "shared.wk"]).unsqueeze(1), self.angles)
        k = torch.cat([heads(F.linear(latent, p[name + "wk_up"])),
                       shared.expand(-1, HEADS, -1, -1)], dim=-1)
        q = torch.cat([q[..., :nope], rotate(q[..., nope:], self.angles)], dim=-1)
        v = heads(F.linear(latent, p[name + "wv_up"]))
        factor, _, _, _, mscale = self.spec["yarn"]
        sharper = (0.1 * mscale * math.log(factor) + 1.0) ** 2
        scores = (q @ k.transpose(-1, -2)) * sharper / math.sqrt(nope + rope)
        y = scores.masked_fill(~self.scores_mask(), -math.inf).softmax(-1) @ v
        return F.linear(y.transpose(1, 2).reshape(SEQUENCES, SEQ, -1), p[name + "wo"])

    def attention(self, x, layer):
        if "latent" in self.spec:
            return self.latent_attention(x, layer)

        def heads(y):
            return y.reshape(SEQUENCES, SEQ, -1, WIDTH // HEADS).transpose(1, 2)

        q, k, v = (heads(self.linear(x, layer, w)) for w in "qkv")
        if self.spec.get("qk_norm"):
            q, k = (F.rms_norm(y, (WIDTH // HEADS,), self.params[f"{layer}.{n}_norm.gain"], eps=1e-5)
                    for y, n in ((q, "q"), (k, "k")))
        if self.spec["family"] in ROTARY:
            q, k = rotate(q, self.angles), rotate(k, self.angles)
            k, v = (y.repeat_interleave(HEADS // self.spec["kv_heads"], dim=1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.scores_mask())
        return self.linear(y.transpose(1, 2).reshape(SEQUENCES, SEQ, WIDTH), layer, "o")

    def mlp(self, x, layer):
        up = self.linear(x, layer, "_up")
        family = self.spec["family"]
        if family == "llama":
            a = F.silu(self.linear(x, layer, "_gate")) * up
        elif family == "microgpt":
            a = F.relu(up)
        else:
            a = F.gelu(up, approximate=self.spec.get("gelu", "tanh"))
        return self.linear(a, layer, "_down")

    def swiglu(self, x, name):
        p = self.params
        gate, up = F.linear(x, p[name + ".w_gate"]), F.linear(x, p[name + ".w_up"])
        return F.linear(F.silu(gate) * up, p[name + ".w_down"])

    def choose(self, scores, layer):
        """[..., k] experts of every token: the bias and the groups decide, without a gradient."""
        spec = self.spec
        choice = scores.detach()
        if "rate" in spec:
            choice = choice + self.params[layer + ".router_bias"].detach()
        groups = spec.get("groups", 1)
        members = choice.unflatten(-1, (groups, -1))
        worth = members.topk(min(2, members.shape[-1]), dim=-1).values.sum(-1)
        best = worth.topk(spec.get("top_groups", 1), dim=-1).indices
        allowed = torch.zeros_like(worth, dtype=torch.bool).scatter(-1, best, True)
        allowed = allowed.unsqueeze(-1).expand_as(members).flatten(-2)
        return choice.masked_fill(~allowed, -math.inf).topk(spec["top_k"], dim=-1).indices

    def experts(self, x, layer):
        spec, p = self.spec, self.params
        E, k = spec["experts"], spec["top_k"]
        logits = F.linear(x, p[layer + ".router"])
        scores = logits.sigmoid() if spec.get("sigmoid") else logits.softmax(-1)
        chosen = self.choose(scores, layer)
        weights = scores.gather(-1, chosen)
        weights = weights / weights.sum(-1, keepdim=True) * spec.get("scaled", 1.0)
        y = self.swiglu(x, layer + ".shared") if spec.get("shared") else torch.zeros_like(x)
        for e in range(E):
            weight = (weights * (chosen == e)).sum(-1, keepdim=True)
            y = y + weight * self.swiglu(x, f"{layer}.experts.{e}")
        visits = F.one_hot(chosen, E).sum(-2).double()  # [sequence, token, expert]
        fraction = visits.mean(1) / k
        share = (scores / scores.sum(-1, keepdim=True)).mean(1)
        self.extra = self.extra + spec.get("aux", 0.0) * E * (fraction * share).sum() * SEQ
        self.extra = self.extra + spec.get("z", 0.0) * (logits.logsumexp(-1) ** 2).sum()
        self.counts[layer] = visits.sum((0, 1))
        return y

    def logits(self, tokens):
        p, family = self.params, self.spec["family"]
        self.extra, self.counts = 0.0, {}
        x = F.embedding(tokens, p["embedding.tokens"])
        if family not in ROTARY:
            x = x + p["embedding.positions"]
        if family == "microgpt":
            x = self.norm(x, "embedding.norm")
        for i in range(LAYERS):
            layer = f"layers.{i}."
            x = x + self.attention(self.norm(x, layer + "norm1"), layer + "attn")
            block = self.experts if family == "moe" else self.mlp
            x = x + block(self.norm(x, layer + "norm2"), layer + "mlp")
        if family != "microgpt":
            x = self.norm(x, "final_norm")
        return F.linear(x, p["embedding.tokens" if self.spec.get("tied") else "head.weight"])


# --- The fixture ---------------------------------------------------------------------------------

def make_fixture(spec):
    model = Model(spec)
    tokens = make_tokens()
    inputs, targets = tokens[:, :-1], tokens[:, 1:].clone()
    targets[IGNORED] = -100

    def loss_of():
        logits = model.logits(inputs)
        return logits, F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))

    valid = int((targets != -100).sum())
    trained = {n: p for n, p in model.params.items() if not n.endswith(".router_bias")}
    matrices = [p for p in trained.values() if p.dim() == 2]
    vectors = [p for p in trained.values() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], **OPTIM)
    fixture = {"num_params": sum(p.numel() for p in model.params.values()),
               "losses": [], "grad_norms": []}
    for step, lr in enumerate(LEARNING_RATES):
        logits, loss = loss_of()
        optimizer.zero_grad()
        (loss + model.extra / valid).backward()
        for layer, counts in model.counts.items():
            if layer + ".router_bias" in model.params:  # its gradient counts visits
                model.params[layer + ".router_bias"].grad = counts / valid
        if step == 0:
            fixture["logits"] = [logits[at].tolist() for at in LOGIT_POSITIONS]
            fixture["grads"] = {n: summary(n, p.grad) for n, p in model.params.items()}
        norm = math.sqrt(sum(float((p.grad ** 2).sum()) for p in trained.values()))
        fixture["losses"].append(float(loss.detach()))
        fixture["grad_norms"].append(norm)
        for layer, counts in model.counts.items():
            if layer + ".router_bias" in model.params:
                with torch.no_grad():
                    change = spec["rate"] * torch.sign(counts.mean() - counts)
                    model.params[layer + ".router_bias"] += change
        for p in trained.values():
            p.grad *= min(1.0, CLIP_NORM / norm)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
    fixture["weights"] = {n: summary(n, p) for n, p in model.params.items()}
    return fixture


def compact(value):
    """JSON with nine digits and one line per tensor."""
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, list):
        return "[" + ",".join(compact(v) for v in value) + "]"
    if isinstance(value, dict):
        deep = any(isinstance(v, dict) for v in value.values()) or "losses" in value
        separator = ",\n" if deep else ","
        return "{" + separator.join(f'"{k}":{compact(v)}' for k, v in value.items()) + "}"
    return json.dumps(value)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for name in sys.argv[2:] or MODELS:
        spec = MODELS[name]
        with open(os.path.join(folder, f"{name}.json"), "w", encoding="ascii") as file:
            file.write(compact(make_fixture(spec)) + "\n")


if __name__ == "__main__":
    main()
