"""Makes what `ncu --page raw --csv` prints, for tests of what reads it."""

import csv
import io


def raw_page(launches, *, units=None, before=""):
    """The raw page as Nsight Compute documents it (CLI manual, `--page raw` with `--csv`).

    A quoted header row, a row with the units below the metrics' names, one row a launch; numbers
    have thousands separators, a metric that could not be collected is `n/a`.
    """
    fixed = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
             "Block Size", "Grid Size", "Device", "CC"]  # fmt: skip
    names = list(dict.fromkeys(name for launch in launches for name in launch["metrics"]))
    out = io.StringIO()
    write = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow
    write([*fixed, *names])
    write([""] * len(fixed) + [(units or {}).get(name, "") for name in names])
    for number, launch in enumerate(launches):
        cells = [number, 4711, "python3", "127.0.0.1", launch["kernel"], 1, 7,
                 launch.get("block", "(256, 1, 1)"), "(16384, 1, 1)", 0, "9.0"]  # fmt: skip
        values = [launch["metrics"].get(name, "n/a") for name in names]
        write([*cells, *(f"{v:,}" if isinstance(v, int | float) else v for v in values)])
    return before + out.getvalue()
