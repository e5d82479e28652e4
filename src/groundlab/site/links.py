"""Markdown of the repository as the site has it: where its links lead, and what only GitHub or a test reads."""

import html
import os
import re
import shutil
from pathlib import Path

PAGES = {"README.md": "readme", "CHANGELOG.md": "changelog", "results/README.md": "results/index"}
"""The pages whose address is not the path of their file."""
_SHOWN = 100_000  # bytes of a file that is shown as it stands
_LEXERS = {".py": "python", ".yaml": "yaml"}
_COMMENT = re.compile(r"\n?[ \t]*<!--.*?-->", re.DOTALL)
_ANCHOR = r'(?:<a id="[^"]+"></a>)+'
_CODE_OR_LINK = re.compile(
    r"(?P<ticks>`+).*?(?<!`)(?P=ticks)(?!`)|(?P<picture>!?)\[(?P<words>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)",
    re.DOTALL,
)


class Links:
    """The addresses of files of the repository `root`, as the pages in `source` have them."""

    def __init__(self, root: Path, source: Path) -> None:
        self.root, self.source = root, source

    def markdown(self, text: str, file: str, page: str) -> str:
        """The text of a file for a page. Both by their paths, `docs/faq.md` and `docs/faq`."""
        text = _COMMENT.sub("", text)
        text = re.sub(rf"^(#+) ({_ANCHOR})(.*)$", r"\2\n\1 \3", text, flags=re.MULTILINE)
        text = re.sub(rf"^({_ANCHOR})$", _blocks, text, flags=re.MULTILINE)

        def linked(match: re.Match[str]) -> str:
            picture, words, target = match.group("picture", "words", "target")
            if target is None or target.startswith(("#", "http")):
                return match[0]
            address = self.address(target, file, page)
            if picture and address:
                return f'<img src="{address}" alt="{html.escape(words)}">'
            return words if address is None else f"[{words}]({address})"

        return _CODE_OR_LINK.sub(linked, text)

    def address(self, target: str, file: str, page: str) -> str | None:
        """The relative address on a page of what a file links; None for what the site does not have."""
        path, _, anchor = target.partition("#")
        path = os.path.relpath(self.root / Path(file).parent / path, self.root)
        # a claim's row on the review page of a version has a page of its own
        row = path.endswith("review.html") and anchor and (self.source / "claims" / f"{anchor}.md").is_file()
        found = f"claims/{anchor}.html" if row else self._found(path, page)
        if found is None:
            return None
        anchor = f"#{anchor}" if anchor and not found.startswith("claims/") else ""
        return os.path.relpath(found, Path(page).parent) + anchor

    def _found(self, path: str, page: str) -> str | None:
        here, parts = self.root / path, Path(path).parts
        if here.suffix == ".png" and here.is_file():
            copy = self.source / "_extra" / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(here, copy)
            return path
        if here.name == "review.html":
            return path if (self.source / "_extra" / path).is_file() else None
        name = PAGES.get(path, path.removesuffix(".md"))
        if here.is_dir():  # the newest of its pages
            name = max((f"{path}/{each.stem}" for each in here.glob("*.md")), default="")
        if here.suffix == ".ipynb":
            versions = {"full", "quick", "paper"} & set(f"{path}-{page}".split("-")) or {"full", "quick"}
            name = next((n for s in sorted(versions) if self._has(n := f"notebooks/{here.stem}-{s}")), "")
        if parts[2:3] and parts[-2:-1] == ("runs",):
            name = f"runs/{parts[2]}-{here.name}"
        if not self._has(name) and here.is_file() and here.suffix != ".md" and here.stat().st_size < _SHOWN:
            name = self._shown(path)
        return f"{name}.html" if self._has(name) else None

    def _has(self, name: str) -> bool:
        return bool(name) and (self.source / f"{name}.md").is_file()

    def _shown(self, path: str) -> str:
        """A page that shows a file as it stands."""
        name, text = f"source/{path}", (self.root / path).read_text()
        lexer = _LEXERS.get(Path(path).suffix, "none")
        write(self.source, name, f"# `{path}`\n\n`````{lexer}\n{text}\n`````\n", orphan=True)
        return name


def _blocks(match: re.Match[str]) -> str:
    """Anchors on a line of their own, which is neither a heading's nor a paragraph's."""
    names = re.findall('"([^"]+)"', match[0])
    return "".join(f'<div id="{name}"></div>' for name in names) + "\n"


def write(source: Path, name: str, text: str, orphan: bool = False) -> None:
    """Write a page; an orphan stands in no sidebar."""
    file = source / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\norphan: true\n---\n{text}" if orphan else text)
