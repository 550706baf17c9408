"""The PyTorch side of bench/against_pytorch.py: the models, whole optimizer steps, and a process that runs them when asked.

A plain torch.nn model as users write it: scaled_dot_product_attention and fused AdamW where this version has them, autocast for
bf16, the gradient divided by the window's tokens, clipped after accumulation. Run by against_pytorch.py alone:
    pytorch_side.py OPTIONS_AS_JSON     answers each line of its input ("eager", "compiled", "checkpointed") with a line of JSON
"""

import json
import resource
import sys
import time

# layers, width, heads, heads of keys, hidden width of the MLP, words, family: accrue's presets of the same names.
SHAPES = {
    "tiny": (4, 256, 4, 4, 704, 257, "llama"),
    "gpt2-124m": (12, 768, 12, 12, 3072, 50304, "gpt2"),
    "llama-350m": (24, 1024, 16, 16, 2816, 32000, "llama"),
    "llama-1.5b": (28, 2048, 16, 8, 5632, 32000, "llama"),
}
POSITIONS = {"tiny": 1024, "gpt2-124m": 1024, "llama-350m": 2048, "llama-1.5b": 2048}


def build_model(torch, shape, positions):
    """GPT-2 or Llama in plain torch.nn; returns the module."""
    nn, functional = torch.nn, torch.nn.functional
    layers, width, heads, key_heads, hidden, words, family = shape
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
        if key_heads != heads:
            key, value = (part.repeat_interleave(heads // key_heads, 1) for part in (key, value))
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
            self.qkv = nn.Linear(width, (heads + 2 * key_heads) * head, bias=is_gpt2)
            self.attention_output = nn.Linear(width, width, bias=is_gpt2)
            self.mlp_input = nn.Linear(width, hidden if is_gpt2 else 2 * hidden, bias=is_gpt2)
            self.mlp_output = nn.Linear(hidden, width, bias=is_gpt2)

        def forward(self, x, mask, cosine, sine):
            samples, tokens, _ = x.shape
            parts = self.qkv(self.attention_norm(x)).split([width, key_heads * head, key_heads * head], -1)
            query, key, value = (part.view(samples, tokens, -1, head).transpose(1, 2) for part in parts)
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
            self.checkpointed = False
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
                rest = (self.mask[:tokens, :tokens], self.cosine[:tokens], self.sine[:tokens])
                if self.checkpointed:
                    x = torch.utils.checkpoint.checkpoint(block, x, *rest, use_reentrant=False)
                else:
                    x = block(x, *rest)
            logits = self.head(self.norm(x))
            return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="sum")

    return Decoder()


def make_optimizer(torch, model):
    """AdamW with the settings of accrue's default run; fused where this version can."""
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
    layers, width, heads, key_heads, hidden, words, family = shape
    mlp = 2 if family == "gpt2" else 3
    attention = 2 * width * width + 2 * width * width * key_heads // heads
    return layers * (attention + mlp * width * hidden) + words * width


def flops_of_sequence(shape, tokens):
    return 6 * matrix_parameters(shape) * tokens + 6 * shape[0] * shape[1] * tokens * tokens


class Side:
    """A model with its optimizer, and the steps of one window after another."""

    def __init__(self, options):
        import torch
        import torch.utils.checkpoint

        self.torch, self.options = torch, options
        self.on_gpu = options["device"] == "cuda"
        if options.get("threads"):
            # Left alone, PyTorch takes one thread for each core, which may be half of what accrue takes.
            torch.set_num_threads(options["threads"])
        torch.manual_seed(1)
        if options["dtype"] != "fp32":
            torch.set_float32_matmul_precision("high")
        self.model = build_model(torch, SHAPES[options["model"]], POSITIONS[options["model"]]).to(options["device"])
        self.optimizer, self.optimizer_kind = make_optimizer(torch, self.model)
        self.compiled = None
        words = SHAPES[options["model"]][5]
        shape = (options["samples"], options["sequence"] + 1)
        self.data = torch.randint(0, words, shape, device=options["device"])
        self.fresh_loss = None  # of its very first step

    def wait(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def callable_of(self, way):
        self.model.checkpointed = way == "checkpointed"
        if way != "compiled":
            return self.model
        if self.compiled is None:
            self.compiled = self.torch.compile(self.model)
        return self.compiled

    def step(self, model):
        """Seconds of one optimizer step, and its loss."""
        torch, options = self.torch, self.options
        tokens = options["samples"] * options["sequence"]
        self.wait()
        start = time.perf_counter()
        total = 0.0
        for first in range(0, options["samples"], options["micro_batch"]):
            rows = self.data[first : first + options["micro_batch"]]
            with torch.autocast(options["device"], dtype=torch.bfloat16, enabled=options["dtype"] == "bf16"):
                loss = model(rows[:, :-1], rows[:, 1:])
            (loss / tokens).backward()
            total = total + loss.detach()  # looked at when the step is over
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self.on_gpu)
        self.wait()
        return time.perf_counter() - start, float(total) / tokens

    def run(self, way, unmeasured, steps):
        """Some steps in one way, and what they took."""
        cuda = self.torch.cuda
        if self.on_gpu:
            cuda.empty_cache()
            cuda.reset_peak_memory_stats()
        model = self.callable_of(way)
        found = [self.step(model) for _ in range(unmeasured + steps)]
        if self.fresh_loss is None:
            self.fresh_loss = found[0][1]
        answer = {
            "way": way,
            "version": self.torch.__version__,
            "threads": self.torch.get_num_threads(),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "attention": "fused" if hasattr(self.torch.nn.functional, "scaled_dot_product_attention") else "plain",
            "adamw": self.optimizer_kind,
            "seconds": [seconds for seconds, _ in found[unmeasured:]],
            "loss": self.fresh_loss,
            "resident_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        if self.on_gpu:
            answer["gpu_allocated_bytes"] = cuda.max_memory_allocated()
            answer["gpu_reserved_bytes"] = cuda.max_memory_reserved()
            answer["gpu"] = cuda.get_device_name()
            answer["cuda"] = self.torch.version.cuda
            cuda.empty_cache()
        return answer


def main():
    options = json.loads(sys.argv[1])
    side = Side(options)
    seen = set()
    for line in sys.stdin:
        way = line.strip()
        # The first time it is compiled, or allocates; on a GPU its memory is allocated anew each time.
        unmeasured = 2 if side.on_gpu and way not in seen else 1
        seen.add(way)
        print(json.dumps(side.run(way, unmeasured, options["steps"])), flush=True)


if __name__ == "__main__":
    main()
