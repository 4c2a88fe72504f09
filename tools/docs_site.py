"""What the documentation's site is told beside mkdocs.yml: CONTRIBUTING.md and CHANGELOG.md are pages too, every page of the API is in the
navigation, and a link to a file of the repository that is no page is shown as that file's name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BESIDE: Final = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files at the top of the repository, and the pages that they become."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """List the pages of the API, services first, as docs/api/index.md does, and among the how-to guides those that have no place."""
    listed = re.findall(r"^\| \[[^\]]+\]\((\w+\.md)\)", (DOCS / "api" / "index.md").read_text(), re.MULTILINE)
    for entry in config.nav:
        if "API" in entry:
            entry["API"] = ["api/index.md", *(f"api/{page}" for page in listed)]
        if "How-to" in entry:
            entry["How-to"] = [*entry["How-to"], *_unlisted(config.nav)]
    return config


def _unlisted(nav: Any) -> list[str]:
    """Pages at the top of docs/ that mkdocs.yml gives no place of their own."""
    said = str(nav)
    return [page.name for page in sorted(DOCS.glob("*.md")) if f"'{page.name}'" not in said]


def on_files(files: Files, config: Any) -> Files:
    for source, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links as the site has them."""
    beside = {page_name: source for source, page_name in BESIDE.items()}
    here = ROOT / beside[page.file.src_uri] if page.file.src_uri in beside else DOCS / page.file.src_uri
    own = "../" * page.file.src_uri.count("/")

    def linked(found: re.Match[str]) -> str:
        mark, text, path, anchor = found.groups()
        target = (here.parent / path).resolve()
        if target.is_relative_to(DOCS) and target.is_file():
            return f"{mark}[{_text(text, target)}]({own}{target.relative_to(DOCS)}{anchor or ''})"
        name = str(target.relative_to(ROOT)) if target.is_relative_to(ROOT) else ""
        if name in BESIDE:
            return f"[{text}]({own}{BESIDE[name]}{anchor or ''})"
        if name and target.exists():
            return text if name in text else f"{text} (`{name}`)"
        return found[0]  # is nowhere: the strict build says so

    return _LINK.sub(linked, markdown)


def _text(text: str, target: Path) -> str:
    """What a link says: the title of the page that it names as a file."""
    if not text.endswith(target.name) or target.suffix != ".md":
        return text
    title = re.match(r"# (.*)", target.read_text())
    return title[1] if title else text
