"""`python -m device`: the commands are in runner.py."""

import sys

try:
    from .runner import main
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed; run `pip install -r requirements.txt`.")

sys.exit(main())
