"""`make outage` starts this."""

import sys
from pathlib import Path

# Started as a folder, Python looks for modules inside of it; they are packaged one level up.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from outage.run import main  # noqa: E402  the path above leads to it

sys.exit(main())
