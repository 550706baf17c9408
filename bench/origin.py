"""Where a result comes from, for the scripts in this folder: every result file says by which command, on which machine, of
which commit."""
import json
import os
import pathlib
import subprocess
import sys


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        return next(line.split(":")[1].strip() for line in info if line.startswith("model name"))


def origin():
    """What a result begins with. To be called before the work, because of the load."""
    script = pathlib.Path(sys.argv[0]).resolve()
    commit = subprocess.run(["git", "-C", script.parent, "describe", "--always", "--dirty"], capture_output=True, text=True,
                            check=False)
    machine = {"processor": processor(), "cores": os.cpu_count(),
               "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
               "load_average_at_start": os.getloadavg()[0]}
    return {"command": " ".join([f"bench/{script.name}"] + sys.argv[1:]), "commit": commit.stdout.strip(), "machine": machine}


def write(path, result):
    """Into the file that --json named, if it did."""
    if path:
        pathlib.Path(path).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
