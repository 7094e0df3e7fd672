"""Script: run a module of this project where the folder above its packages cannot be listed.

In the sandbox only the packages themselves are readable, so Python's search along `sys.path` does
not find them. `python bootstrap.py MODULE ARGUMENT…` loads them by their paths.
"""

import importlib.util
import runpy
import sys
from pathlib import Path

_PACKAGES = ("kb", "judge")


def main() -> None:
    """Load the packages and run the module named by the first argument as a program."""
    root = Path(__file__).parent.parent.parent
    sys.path[:] = [entry for entry in sys.path if Path(entry) != Path(__file__).parent]
    for name in _PACKAGES:
        folder = root / name
        spec = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
