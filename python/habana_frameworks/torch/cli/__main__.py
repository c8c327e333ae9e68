"""python -m habana_frameworks.torch.cli"""

import sys

from . import main

sys.exit(main())
