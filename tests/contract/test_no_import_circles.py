"""No module of groundlab needs itself: imports inside functions and for types alone count like all others."""

from graphlib import TopologicalSorter

import pytest


def test_there_is_no_import_circle():
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("groundlab", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the modules of a circle
