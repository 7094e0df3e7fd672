"""``python -m agent.sandbox``: print what isolates untrusted code on this machine."""

import sys

from agent.sandbox.probe import main

sys.exit(main())
