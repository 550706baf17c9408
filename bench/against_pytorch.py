#!/usr/bin/env python3
"""The same training work in PyTorch and in accrue, in turns, on this machine.

    bench/against_pytorch.py --json result.json
    bench/against_pytorch.py --model llama-350m --dtype fp32 --threads 16
    bench/against_pytorch.py --device cuda --json result.json                    # all rows of the GPU
    bench/against_pytorch.py --device cuda --rows gpt2-64,gpt2-8 --json result.json

Both sides run whole optimizer steps on windows of random sequences: forward and backward one micro-batch after another, the
gradient divided once by the window's tokens, clipped, AdamW. The PyTorch side (pytorch_side.py, beside this file) is a plain
torch.nn model as users write it. They take turns, so that a machine that changes its speed treats them alike. Needs PyTorch (any
version from 1.13 on: apt-get install python3-torch, or pip install torch) and a built accrue; nothing else here needs PyTorch.

On processors a micro-batch is one grain (sequences of 1,024 tokens: one; shorter ones: as many as make 1,024 tokens), and each
round starts both sides anew, so that peaks of memory are nobody else's.
On a GPU a row is a model and a micro-batch. PyTorch stays in one process, which runs steps eagerly and compiled, as each round
asks; accrue starts anew for each round. --rows chooses some of them, so that a short lease is enough for a part: the file that
--json names keeps the other rows as they are, each with its machine, commit and command.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys

from pytorch_side import SHAPES, flops_of_sequence

HERE = os.path.dirname(os.path.abspath(__file__))
GRAIN_TOKENS = 1024

# What is compared on a GPU, in samples of 1,024 tokens: the window, the micro-batch and accrue's grain; what PyTorch does; and
# what accrue is told besides.
GPU_ROWS = {
    "gpt2-64": {"model": "gpt2-124m", "samples": 64, "micro_batch": 64, "grain": 8, "ways": ["eager", "compiled"]},
    "gpt2-8": {"model": "gpt2-124m", "samples": 64, "micro_batch": 8, "grain": 8, "ways": ["eager", "compiled"]},
    "gpt2-4": {"model": "gpt2-124m", "samples": 64, "micro_batch": 4, "grain": 4, "ways": ["eager", "compiled"]},
    "gpt2-1": {"model": "gpt2-124m", "samples": 64, "micro_batch": 1, "grain": 1, "ways": ["eager", "compiled"]},
    "llama-374m": {"model": "llama-350m", "samples": 32, "micro_batch": 8, "grain": 8, "ways": ["eager", "compiled"]},
    "llama-374m-recomputed": {
        "model": "llama-350m", "samples": 32, "micro_batch": 8, "grain": 8, "ways": ["checkpointed"],
        "accrue": ["--recompute", "block"],
    },
    "llama-1.45b": {"model": "llama-1.5b", "samples": 16, "micro_batch": 8, "grain": 8, "ways": ["eager", "compiled"]},
    "llama-1.45b-recomputed": {
        "model": "llama-1.5b", "samples": 16, "micro_batch": 8, "grain": 8, "ways": ["checkpointed"],
        "accrue": ["--recompute", "block", "--set", "optimizer.moments=8bit"],
    },
}
GPU_SEQUENCE = 1024


def end(text):
    raise SystemExit(f"against_pytorch: {text}")


def child_output(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        end(f"{' '.join(command)} ended with {result.returncode} (its message is above).")
    return json.loads(result.stdout)


class PyTorch:
    """A process of the PyTorch side, which runs steps of one work when it is asked."""

    def __init__(self, work, steps, threads=0):
        options = {key: work[key] for key in ("model", "dtype", "sequence", "samples", "micro_batch", "device")}
        options.update(steps=steps, threads=threads)
        command = [sys.executable, os.path.join(HERE, "pytorch_side.py"), json.dumps(options)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def run(self, way):
        try:
            self.process.stdin.write(way + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            end(f"PyTorch ended when it was asked for {way} steps (its message is above).")
        return json.loads(answer)


def measure_accrue(arguments, work, steps, threads=0):
    command = [arguments.accrue, "bench", "--child", "steps", "--steps", str(steps)]
    for option in ("model", "dtype", "sequence", "samples", "device"):
        command += [f"--{option}", str(work[option])]
    if work["device"] == "cpu":
        command += ["--threads", str(threads)]
    else:
        grain = work["grain"]
        command += ["--set", f"window.grain_samples={grain}", "--micro-batch", str(work["micro_batch"] // grain)]
        command += work["accrue"]
    found = child_output(command)
    found["seconds"] = [step["seconds"] for step in found["steps"]]
    found["loss"] = found["steps"][0]["loss"]
    return found


def check_same_work(work, pytorch, accrue):
    """The figures are worth comparing only if both sides trained the same model on as many tokens."""
    if pytorch["parameters"] != accrue["parameters"]:
        end(
            f"PyTorch's model has {pytorch['parameters']} parameters and accrue's {accrue['parameters']}: not the same "
            "work."
        )
    if accrue["window_tokens"] != work["samples"] * work["sequence"]:
        end("the windows differ.")
    # Random words and small fresh weights: both losses are close to the logarithm of the vocabulary.
    if abs(pytorch["loss"] - accrue["loss"]) > 0.02 * accrue["loss"]:
        end(f"losses {pytorch['loss']} and {accrue['loss']} are not of the same work.")


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


def output_of(command):
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    except OSError:
        return ""
    return result.stdout.strip()


def commit():
    """Of the sources, or what a folder of packed programs says that it was made of."""
    if os.path.exists(os.path.join(HERE, "commit")):
        with open(os.path.join(HERE, "commit"), encoding="utf-8") as file:
            return file.read().strip()
    found = output_of(["git", "-C", HERE, "describe", "--always", "--abbrev=12", "--dirty", "--match", "nothing"])
    return found or "unknown"


def gpu(arguments):
    """As nvidia-smi and accrue tell."""
    fields = "name,driver_version,memory.total,power.limit"
    told = output_of(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]).split("\n")[0]
    version = output_of([arguments.accrue, "--version"]).split("\n")
    return {
        "nvidia_smi": dict(zip(fields.split(","), (part.strip() for part in told.split(",")))),
        "accrue": [line for line in version if line.startswith(("cuda:", "built with"))],
    }


def origin():
    return {
        "machine": machine(),
        "commit": commit(),
        "command": " ".join([os.path.relpath(sys.argv[0]), *sys.argv[1:]]),
    }


def side(work, rounds):
    """Medians over all steps of all rounds of one side."""
    seconds = [second for one in rounds for second in one["seconds"]]
    result = {
        "tokens_per_second": work["samples"] * work["sequence"] / statistics.median(seconds),
        "step_seconds": statistics.median(seconds),
        "all_step_seconds": seconds,
        "first_loss": rounds[0]["loss"],
        "parameters": rounds[0]["parameters"],
    }
    for key in ("resident_peak_bytes", "arena_bytes", "gpu_allocated_bytes", "gpu_reserved_bytes"):
        if key in rounds[0]:
            result[key] = max(one[key] for one in rounds)
    for key in ("threads", "version", "attention", "adamw", "gpu", "cuda", "device", "plan"):
        if key in rounds[0]:
            result[key] = rounds[0][key]
    return result


def work_json(work):
    named = {key: work[key] for key in ("model", "dtype", "sequence", "samples", "micro_batch")}
    return named | {"flops_per_step": flops_of_sequence(SHAPES[work["model"]], work["sequence"]) * work["samples"]}


# On processors.


def compare_on_processors(arguments):
    threads = arguments.threads or len(os.sched_getaffinity(0))
    work = {
        "model": arguments.model,
        "dtype": arguments.dtype,
        "sequence": arguments.sequence,
        "samples": arguments.samples,
        "micro_batch": -(-GRAIN_TOKENS // arguments.sequence),
        "device": "cpu",
    }
    pytorch_rounds, accrue_rounds = [], []
    for number in range(arguments.rounds):
        accrue_rounds.append(measure_accrue(arguments, work, arguments.steps, threads))
        with PyTorch(work, arguments.steps, arguments.pytorch_threads or threads) as process:
            pytorch_rounds.append(process.run("eager"))
        check_same_work(work, pytorch_rounds[-1], accrue_rounds[-1])
        print(
            f"round {number + 1} of {arguments.rounds}: seconds a step, accrue "
            f"{statistics.median(accrue_rounds[-1]['seconds']):.3f}, PyTorch "
            f"{statistics.median(pytorch_rounds[-1]['seconds']):.3f}",
            flush=True,
        )
    pytorch, accrue = side(work, pytorch_rounds), side(work, accrue_rounds)
    return {
        "speed_ratio": accrue["tokens_per_second"] / pytorch["tokens_per_second"],
        "memory_ratio": accrue["resident_peak_bytes"] / pytorch["resident_peak_bytes"],
        "accrue": accrue,
        "pytorch": pytorch,
        "work": work_json(work),
        **origin(),
    }


def print_on_processors(result):
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


# On a GPU.


def compare_row(arguments, name):
    """One model and micro-batch: accrue and each way of PyTorch, in turns."""
    row = GPU_ROWS[name]
    work = {"dtype": arguments.dtype, "sequence": GPU_SEQUENCE, "device": "cuda", "accrue": [], **row}
    ways = [way for way in row["ways"] if way != "compiled" or not arguments.eager_only]
    found = {"accrue": [], **{way: [] for way in ways}}
    with PyTorch(work, arguments.steps) as process:
        for way in ways:  # compiled, and its memory allocated, before anything is measured
            process.run(way)
        for _ in range(arguments.rounds):
            found["accrue"].append(measure_accrue(arguments, work, arguments.steps))
            for way in ways:
                found[way].append(process.run(way))
                check_same_work(work, found[way][-1], found["accrue"][-1])
    result = {"work": work_json(work) | {"grain": row["grain"], "accrue_options": work["accrue"]}}
    for who, rounds in found.items():
        result[who] = side(work, rounds)
    accrue = result["accrue"]
    for way in ways:
        result[f"speed_over_{way}"] = accrue["tokens_per_second"] / result[way]["tokens_per_second"]
        result[f"arena_over_{way}_allocated"] = accrue["arena_bytes"] / result[way]["gpu_allocated_bytes"]
    return {**result, "gpu": gpu(arguments), **origin()}


def print_row(name, result):
    gib = 2.0**30
    accrue = result["accrue"]
    print(
        f"{name:24} accrue    {accrue['tokens_per_second']:10,.0f} tokens/s  {accrue['arena_bytes'] / gib:6.2f} GiB "
        f"arena, {accrue['resident_peak_bytes'] / gib:6.2f} GiB with all of CUDA  ({accrue['plan']})",
        flush=True,
    )
    for way in ("eager", "compiled", "checkpointed"):
        if way in result:
            one = result[way]
            print(
                f"{'':24} {way:12} {one['tokens_per_second']:7,.0f} tokens/s  {one['gpu_allocated_bytes'] / gib:6.2f} GiB "
                f"allocated, {one['gpu_reserved_bytes'] / gib:6.2f} GiB reserved: accrue is "
                f"{result[f'speed_over_{way}']:.2f} x as fast",
                flush=True,
            )


def compare_on_gpu(arguments):
    """Row by row, each safe in the file before the next one begins."""
    names = arguments.rows.split(",") if arguments.rows else list(GPU_ROWS)
    unknown = [name for name in names if name not in GPU_ROWS]
    if unknown:
        end(f"there is no row {unknown[0]}; there are {', '.join(GPU_ROWS)}.")
    everything = {"rows": {}}
    if arguments.json and os.path.exists(arguments.json):
        with open(arguments.json, encoding="utf-8") as file:
            everything = json.load(file)
        if "rows" not in everything:
            end(f"{arguments.json} holds no rows: it is no result of a GPU. Name another file.")
    for name in names:
        everything["rows"][name] = compare_row(arguments, name)
        print_row(name, everything["rows"][name])
        write(arguments.json, everything)


def write(path, result):
    if path:
        with open(path + ".partial", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)
            file.write("\n")
        os.replace(path + ".partial", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rows", default="", help=f"of a GPU, with commas between: {', '.join(GPU_ROWS)}")
    parser.add_argument("--eager-only", action="store_true", help="on a GPU: compile nothing")
    parser.add_argument("--model", default="gpt2-124m", choices=sorted(SHAPES), help="on processors")
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp32"))
    parser.add_argument("--sequence", type=int, default=1024, help="on processors: tokens of a sample")
    parser.add_argument("--samples", type=int, default=4, help="on processors: samples of the window")
    parser.add_argument("--threads", type=int, default=0, help="of both sides; 0 = all processors")
    parser.add_argument("--pytorch-threads", type=int, default=0, help="another number for PyTorch")
    parser.add_argument("--steps", type=int, default=3, help="measured steps of each side in a round")
    parser.add_argument("--rounds", type=int, default=3, help="of both sides, in turns")
    parser.add_argument("--accrue", default="", help="the program; else that of this folder, or build/release/accrue")
    parser.add_argument("--json", default="", help="write the result there too")
    arguments = parser.parse_args()
    beside = os.path.join(HERE, "accrue")
    arguments.accrue = arguments.accrue or (beside if os.path.isfile(beside) else "build/release/accrue")
    try:
        import torch
    except ImportError:
        end(
            f"{sys.executable} has no PyTorch, which only this comparison needs. "
            "Install it (apt-get install --no-install-recommends python3-torch, then run this with /usr/bin/python3; "
            "or pip install torch)."
        )
    if arguments.device == "cuda" and not torch.cuda.is_available():
        end(f"PyTorch {torch.__version__} finds no GPU.")
    if not os.access(arguments.accrue, os.X_OK):
        end(f"there is no program {arguments.accrue}: run make build, or give --accrue.")
    if arguments.device == "cuda":
        compare_on_gpu(arguments)
        return
    result = compare_on_processors(arguments)
    print_on_processors(result)
    write(arguments.json, result)


if __name__ == "__main__":
    main()
