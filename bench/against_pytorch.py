#!/usr/bin/env python3
"""The same training work in PyTorch and in accrue, in turns, on this machine.

    bench/against_pytorch.py --json result.json
    bench/against_pytorch.py --model llama-350m --dtype fp32 --threads 16

Both sides run whole optimizer steps on windows of --samples random sequences: forward and backward one grain at a time
(sequences of 1,024 tokens: one; shorter ones: as many as make 1,024 tokens), the gradient divided once by the window's
tokens, clipped, AdamW. The PyTorch side is a plain torch.nn model as users write it: scaled_dot_product_attention and
fused AdamW where this version has them, autocast for bf16. Each round starts a process for each side, so that a machine
that changes its speed treats both alike and peaks of memory are nobody else's. Needs PyTorch (any version from 1.13 on:
apt-get install python3-torch, or pip install torch) and a built accrue; nothing else in this repository needs PyTorch.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

# layers, width, heads, hidden width of the MLP, words, family: accrue's presets of the same names.
SHAPES = {
    "tiny": (4, 256, 4, 704, 257, "llama"),
    "gpt2-124m": (12, 768, 12, 3072, 50304, "gpt2"),
    "llama-350m": (24, 1024, 16, 2816, 32000, "llama"),
}
GRAIN_TOKENS = 1024


def build_model(torch, shape, positions):
    """GPT-2 or Llama in plain torch.nn; returns the module."""
    nn, functional = torch.nn, torch.nn.functional
    layers, width, heads, hidden, words, family = shape
    head = width // heads
    is_gpt2 = family == "gpt2"
    fused_attention = getattr(functional, "scaled_dot_product_attention", None)

    class RmsNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            wide = x.float()
            return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight).to(x.dtype)

    def norm():
        return nn.LayerNorm(width) if is_gpt2 else RmsNorm()

    def attention(query, key, value, mask):
        if fused_attention is not None:
            return fused_attention(query, key, value, is_causal=True)
        scores = (query @ key.transpose(-2, -1)) * (head**-0.5)
        return torch.softmax(scores.masked_fill(mask, float("-inf")), -1).to(value.dtype) @ value

    def turn(x, cosine, sine):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1).to(x.dtype)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.mlp_norm = norm(), norm()
            self.qkv = nn.Linear(width, 3 * width, bias=is_gpt2)
            self.attention_output = nn.Linear(width, width, bias=is_gpt2)
            self.mlp_input = nn.Linear(width, hidden if is_gpt2 else 2 * hidden, bias=is_gpt2)
            self.mlp_output = nn.Linear(hidden, width, bias=is_gpt2)

        def forward(self, x, mask, cosine, sine):
            samples, tokens, _ = x.shape
            query, key, value = (
                part.view(samples, tokens, heads, head).transpose(1, 2)
                for part in self.qkv(self.attention_norm(x)).split(width, -1)
            )
            if not is_gpt2:
                query, key = turn(query, cosine, sine), turn(key, cosine, sine)
            mixed = attention(query, key, value, mask).transpose(1, 2).reshape(samples, tokens, width)
            x = x + self.attention_output(mixed)
            inner = self.mlp_input(self.mlp_norm(x))
            if is_gpt2:
                return x + self.mlp_output(functional.gelu(inner, approximate="tanh"))
            gate, up = inner.chunk(2, -1)
            return x + self.mlp_output(functional.silu(gate) * up)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.positions = nn.Embedding(positions, width) if is_gpt2 else None
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = norm()
            self.head = nn.Linear(width, words, bias=False)
            if is_gpt2:
                self.head.weight = self.words.weight
            angles = torch.outer(
                torch.arange(positions).float(), 1.0 / (10000 ** (torch.arange(0, head, 2).float() / head))
            )
            self.register_buffer("cosine", angles.cos())
            self.register_buffer("sine", angles.sin())
            self.register_buffer("mask", torch.ones(positions, positions, dtype=torch.bool).triu(1))
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, ids, targets):
            tokens = ids.shape[1]
            x = self.words(ids)
            if self.positions is not None:
                x = x + self.positions.weight[:tokens]
            for block in self.blocks:
                x = block(x, self.mask[:tokens, :tokens], self.cosine[:tokens], self.sine[:tokens])
            logits = self.head(self.norm(x))
            return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="sum")

    return Decoder()


def make_optimizer(torch, model):
    """AdamW with the settings of accrue's default run; fused where this version can on CPUs."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    options = {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8}
    for kind, more in (("fused", {"fused": True}), ("foreach", {"foreach": True}), ("plain", {})):
        try:
            return torch.optim.AdamW(groups, **options, **more), kind
        except (TypeError, RuntimeError):
            continue
    raise SystemExit("torch.optim.AdamW cannot be made.")


def matrix_parameters(shape):
    """Parameters of products, the head once, lookup tables not."""
    layers, width, _, hidden, words, family = shape
    mlp = 2 if family == "gpt2" else 3
    return layers * (4 * width * width + mlp * width * hidden) + words * width


def flops_of_sequence(shape, tokens):
    return 6 * matrix_parameters(shape) * tokens + 6 * shape[0] * shape[1] * tokens * tokens


def run_pytorch(arguments):
    """One process's work: a step that is not measured, then the others. Prints JSON."""
    import torch

    # Left alone, PyTorch takes one thread for each core, which may be half of what accrue takes.
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    shape = SHAPES[arguments.model]
    positions = {"gpt2-124m": 1024, "llama-350m": 2048, "tiny": 1024}[arguments.model]
    model = build_model(torch, shape, positions)
    optimizer, optimizer_kind = make_optimizer(torch, model)
    grain = -(-GRAIN_TOKENS // arguments.sequence)
    data = torch.randint(0, shape[4], (arguments.samples, arguments.sequence + 1))
    tokens = arguments.samples * arguments.sequence
    seconds, losses = [], []
    for _ in range(arguments.steps + 1):
        start = time.perf_counter()
        total = 0.0
        for first in range(0, arguments.samples, grain):
            rows = data[first : first + grain]
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.dtype == "bf16"):
                loss = model(rows[:, :-1], rows[:, 1:])
            (loss / tokens).backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        seconds.append(time.perf_counter() - start)
        losses.append(total / tokens)
    functional = torch.nn.functional
    print(
        json.dumps(
            {
                "version": torch.__version__,
                "threads": torch.get_num_threads(),
                "parameters": sum(p.numel() for p in model.parameters()),
                "attention": "fused" if hasattr(functional, "scaled_dot_product_attention") else "plain",
                "adamw": optimizer_kind,
                "seconds": seconds[1:],
                "loss": losses[0],
                "resident_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


def child_output(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"against_pytorch: {' '.join(command)} ended with {result.returncode} (its message is above).")
    return json.loads(result.stdout)


def work_options(arguments):
    names = ("model", "dtype", "sequence", "samples", "threads", "steps")
    return [word for name in names for word in (f"--{name}", str(getattr(arguments, name)))]


def measure_pytorch(arguments):
    options = work_options(arguments) + ["--threads", str(arguments.pytorch_threads or arguments.threads)]
    return child_output([sys.executable, os.path.abspath(__file__), "--child", *options])


def measure_accrue(arguments):
    found = child_output([arguments.accrue, "bench", "--child", "steps", *work_options(arguments)])
    found["seconds"] = [step["seconds"] for step in found["steps"]]
    found["loss"] = found["steps"][0]["loss"]
    return found


def check_same_work(arguments, pytorch, accrue):
    """The figures are worth comparing only if both sides trained the same model on as many tokens."""
    if pytorch["parameters"] != accrue["parameters"]:
        raise SystemExit(
            f"against_pytorch: PyTorch's model has {pytorch['parameters']} parameters and accrue's "
            f"{accrue['parameters']}: not the same work."
        )
    if accrue["window_tokens"] != arguments.samples * arguments.sequence:
        raise SystemExit("against_pytorch: the windows differ.")
    # Random words and small fresh weights: both losses are close to the logarithm of the vocabulary.
    if abs(pytorch["loss"] - accrue["loss"]) > 0.02 * accrue["loss"]:
        raise SystemExit(f"against_pytorch: losses {pytorch['loss']} and {accrue['loss']} are not of the same work.")


def machine():
    processor = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            processor = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "processor": processor,
        "processors": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
    }


def commit_of(folder):
    command = ["git", "-C", folder, "describe", "--always", "--abbrev=12", "--dirty", "--match", "nothing"]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    except OSError:
        return "unknown"
    return result.stdout.strip() or "unknown"


def side(arguments, rounds):
    """Medians over all steps of all rounds of one side."""
    seconds = [second for one in rounds for second in one["seconds"]]
    return {
        "tokens_per_second": arguments.samples * arguments.sequence / statistics.median(seconds),
        "step_seconds": statistics.median(seconds),
        "all_step_seconds": seconds,
        "resident_peak_bytes": max(one["resident_peak_bytes"] for one in rounds),
        "first_loss": rounds[0]["loss"],
        "threads": rounds[0]["threads"],
        "parameters": rounds[0]["parameters"],
    }


def compare(arguments):
    pytorch_rounds, accrue_rounds = [], []
    for number in range(arguments.rounds):
        accrue_rounds.append(measure_accrue(arguments))
        pytorch_rounds.append(measure_pytorch(arguments))
        check_same_work(arguments, pytorch_rounds[-1], accrue_rounds[-1])
        print(
            f"round {number + 1} of {arguments.rounds}: seconds a step, accrue "
            f"{statistics.median(accrue_rounds[-1]['seconds']):.3f}, PyTorch "
            f"{statistics.median(pytorch_rounds[-1]['seconds']):.3f}",
            flush=True,
        )
    pytorch, accrue = side(arguments, pytorch_rounds), side(arguments, accrue_rounds)
    pytorch.update({key: pytorch_rounds[0][key] for key in ("version", "attention", "adamw")})
    accrue["device"] = accrue_rounds[0]["device"]
    return {
        "speed_ratio": accrue["tokens_per_second"] / pytorch["tokens_per_second"],
        "memory_ratio": accrue["resident_peak_bytes"] / pytorch["resident_peak_bytes"],
        "accrue": accrue,
        "pytorch": pytorch,
        "work": {
            "model": arguments.model,
            "dtype": arguments.dtype,
            "sequence": arguments.sequence,
            "samples": arguments.samples,
            "flops_per_step": flops_of_sequence(SHAPES[arguments.model], arguments.sequence) * arguments.samples,
        },
        "machine": machine(),
        "commit": commit_of(os.path.dirname(os.path.abspath(__file__))),
        "command": " ".join(sys.argv),
    }


def print_result(result):
    work, gib = result["work"], 2.0**30
    print(
        f"\n{work['model']}, {work['dtype']}, windows of {work['samples']} x {work['sequence']} tokens, "
        f"{work['flops_per_step'] / 1e9:.1f} GFLOP a step; {result['machine']['processor']}"
    )
    for name in ("accrue", "pytorch"):
        one = result[name]
        about = one["device"] if name == "accrue" else (
            f"{one['version']}, {one['threads']} threads, {one['attention']} attention, {one['adamw']} AdamW"
        )
        print(
            f"{name:8} {one['tokens_per_second']:9.1f} tokens/s  {one['step_seconds']:8.3f} s a step  "
            f"{one['resident_peak_bytes'] / gib:6.2f} GiB resident  loss {one['first_loss']:.3f}  ({about})"
        )
    print(f"accrue / PyTorch: {result['speed_ratio']:.2f} x the speed, {result['memory_ratio']:.2f} x the memory")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gpt2-124m", choices=sorted(SHAPES))
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp32"))
    parser.add_argument("--sequence", type=int, default=1024, help="tokens of a sample")
    parser.add_argument("--samples", type=int, default=4, help="samples of the window")
    parser.add_argument("--threads", type=int, default=0, help="of both sides; 0 = all processors")
    parser.add_argument("--pytorch-threads", type=int, default=0, help="another number for PyTorch")
    parser.add_argument("--steps", type=int, default=3, help="measured steps of a process, after one that is not")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side, in turns")
    parser.add_argument("--accrue", default="build/release/accrue", help="the program")
    parser.add_argument("--json", default="", help="write the result there too")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        raise SystemExit(
            f"against_pytorch: {sys.executable} has no PyTorch, which only this comparison needs. "
            "Install it (apt-get install --no-install-recommends python3-torch, then run this with /usr/bin/python3; "
            "or pip install torch)."
        ) from None
    arguments.threads = arguments.threads or len(os.sched_getaffinity(0))
    if arguments.child:
        run_pytorch(arguments)
        return
    if not os.access(arguments.accrue, os.X_OK):
        raise SystemExit(f"against_pytorch: there is no program {arguments.accrue}: run make build, or give --accrue.")
    result = compare(arguments)
    print_result(result)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
