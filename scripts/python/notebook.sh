#!/usr/bin/env bash
# The tutorial notebook, executed from its first cell to its last.
set -euo pipefail
source "$(dirname "$0")/common.sh"
fresh_python notebook "" nbclient ipykernel nbformat matplotlib pandas
cd "$repository/docs"
"$python" - <<'RUN'
import nbclient, nbformat
notebook = nbformat.read("tutorial.ipynb", as_version=4)
nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
print(f"{sum(cell.cell_type == 'code' for cell in notebook.cells)} cells ran")
RUN
