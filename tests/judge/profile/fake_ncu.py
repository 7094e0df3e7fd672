"""A stand-in for the ncu program: its options and messages, with numbers of the test's choosing.

What it does is in `script.json` beside it; see `test_profile_ncu`.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from raw_page import raw_page

SCRIPT = json.loads(Path(__file__).with_name("script.json").read_text())


def main():
    options = argparse.ArgumentParser()
    for name in ("--version", "--query-metrics", "--csv", "--force-overwrite"):
        options.add_argument(name, action="store_true")
    for name in ("--metrics", "--export", "--import", "--log-file", "--page", "--print-units",
                 "--clock-control", "--cache-control", "--target-processes",
                 "--profile-from-start", "--launch-count"):  # fmt: skip
        options.add_argument(name)
    options.add_argument("program", nargs=argparse.REMAINDER)
    given = options.parse_args()
    if given.version:
        print("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 1)")
    elif given.query_metrics:
        print("Device NVIDIA H200 (GH100)\n-----\nMetric Name   Metric Description\n-----")
        for name in SCRIPT.get("known", ()):
            print(f"{name:<60} # of something")
    elif vars(given)["import"]:
        launches = json.loads(Path(vars(given)["import"]).read_text())
        units = {"gpu__time_duration.sum": "ns"}
        Path(given.log_file).write_text(raw_page(launches, units=units))
    else:
        collect(given)


def collect(given):
    asked = given.metrics.split(",")
    unknown = [name for name in SCRIPT.get("unknown", ()) if name in asked]
    if unknown:
        base = unknown[0].partition(".")[0]
        print(f"==ERROR== Failed to find metric regex:^{base}\\.(sum|min|max|avg|pct|ratio)$")
        sys.exit(1)
    if SCRIPT.get("print"):
        print(SCRIPT["print"])
        sys.exit(SCRIPT.get("code", 1))
    time.sleep(SCRIPT.get("deaf", 0))
    print("==PROF== Connected to process 7 (python)", flush=True)
    time.sleep(SCRIPT.get("sleep", 0))
    done = subprocess.run(given.program, check=False)
    if done.returncode:
        print("==ERROR== The application returned an error code (1).")
        print("==WARNING== No kernels were profiled.")
        sys.exit(1)
    for launch in SCRIPT["launches"]:
        launch["metrics"] = {k: v for k, v in launch["metrics"].items() if k in asked}
    Path(given.export).write_text(json.dumps(SCRIPT["launches"]))
    Path(given.export).with_name("asked.txt").write_text("\n".join(asked))


main()
