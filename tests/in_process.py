"""Chapters executed in this process: for tests of what a chapter shows, to which the kernel it runs in is nothing."""

import os
from contextlib import chdir
from types import ModuleType
from unittest import mock

import nbformat
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from rbp import provenance


def run(chapter, parameters, output, cwd, tell, environment):
    """What `companion.execute.run` does with papermill and a kernel; an exception of a cell comes out as it is."""
    shown: dict[object, nbformat.NotebookNode] = {}
    notebook = parameterize_notebook(load_notebook_node(str(chapter.path)), dict(parameters))
    ipython = InteractiveShell.instance(user_module=ModuleType("chapter"))
    ipython.reset()
    outside = mock.patch.dict(os.environ, {**environment, "RBP_OUT": str(output.parent)})
    with chdir(cwd), outside, provenance.recording():  # what tests before it read is not the chapter's
        for cell in notebook.cells:
            if cell.cell_type == "code":
                with capture_output() as captured:
                    result = ipython.run_cell(cell.source)
                result.raise_error()
                for each in captured.outputs:
                    display = nbformat.v4.new_output("display_data", each.data, metadata=each.metadata or {})
                    name = (each.transient or {}).get("display_id", id(display))
                    if each.update:
                        shown[name].data = display.data
                    else:
                        shown[name] = display
                        cell.outputs.append(display)
    nbformat.write(notebook, output)
