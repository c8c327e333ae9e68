"""The events of this process, as one document: a page for a browser, or JSON.

    from habana_frameworks.torch import dynamo
    with dynamo.recording():
        compiled(inputs)
    dynamo.report()  # in a notebook: the page

hpu-compile report script.py does the same for a whole script. docs/report.md describes the
contents.
"""

from __future__ import annotations
