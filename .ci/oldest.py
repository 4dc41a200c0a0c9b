"""Print pip's requirements for the oldest versions that pyproject.toml allows.

Not of torch: of its versions only one has a build without CUDA packages, and CI installs that.
"""

import re
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
for requirement in {*project["dependencies"], *project["optional-dependencies"]["test"]}:
    found = re.match(r"([\w\[\]-]+)>=([\d.]+)", requirement)
    if found is None:
        sys.exit(f"{requirement!r} names no oldest version")
    if found[1] != "torch":
        print("==".join(found.groups()))
