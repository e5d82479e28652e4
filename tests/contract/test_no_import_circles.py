"""No module of groundlab needs itself: imports inside functions and for types alone count like all others."""

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def circle(graph: grimp.ImportGraph) -> list[str]:
    """The modules of one import circle, empty without one."""
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("groundlab", cache_dir=None)


def test_there_is_no_import_circle(graph):
    assert len(graph.modules) > 250 and circle(graph) == []


def test_an_import_inside_a_function_closes_a_circle(tmp_path, monkeypatch):
    package = tmp_path / "turning"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "first.py").write_text("from turning import second\n")
    (package / "second.py").write_text("def late():\n    from turning.first import second\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert set(circle(grimp.build_graph("turning", cache_dir=None))) == {"turning.first", "turning.second"}
