"""Run the damage campaign: `python -m tests.support.damage --tries 1200 --seed 1`."""

from __future__ import annotations

import os
import sys

from tests.support.damage.campaign import main

os.nice(5)
sys.exit(main())
