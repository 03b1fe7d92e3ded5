"""Reduce what pages load: icons as a few drawings, scripts once the page is read, and no file that no page uses."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pydata_sphinx_theme
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

THEME = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme" / "static"

AT_ONCE = "documentation_options.js"
"""The one script that a page cannot put off: scripts within the page add to what it sets."""

#: the rules of the theme's stylesheet for 2000 icons, each a letter of a font of 156 kB
_ICON_RULES = re.compile(
    r"(?<=[};/])(?:\.fa[\w-]*(?:[:.][\w.:-]+)?,?)+\{[^{}]*\}|@font-face\{[^{}]*Font Awesome[^{}]*\}"
)

_ICON = """/* Icons: Font Awesome Free by @fontawesome, https://fontawesome.com, CC BY 4.0 */
.fa-solid::before,.fas::before,.fa-brands::before,.fab::before,.fa-regular::before,.far::before{content:"";
display:inline-block;width:1em;height:1em;vertical-align:-.125em;background:currentColor;
mask:var(--icon) center/contain no-repeat}
.fa-lg{font-size:1.25em;line-height:.05em;vertical-align:-.075em}
"""


def icons(names: set[str]) -> str:
    """Draw the icons of these names that the theme's script has, as a stylesheet: Font Awesome Free, CC BY 4.0."""
    script = (THEME / "scripts" / "fontawesome.js").read_text(encoding="utf-8")
    rules = []
    for name in sorted(names):
        quoted = rf'"{re.escape(name)}"' if "-" in name else re.escape(name)
        matches = re.findall(rf'[{{,]{quoted}:\[(\d+),(\d+),\[[^\]]*\],"\w+","([^"]+)"\]', script)
        if matches:
            width, height, path = matches[-1]
            drawing = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"><path d="{path}"/></svg>'
            rules.append(f".fa-{name}{{--icon:url('data:image/svg+xml,{quote(drawing)}')}}")
    return _ICON + "\n".join(rules)


def _put_off(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Defer scripts until the page is read, except on the search page, whose template from Sphinx uses them."""
    for script in context["script_files"]:  # all pages share them
        if pagename == "search" or str(script.filename or "").endswith(AT_ONCE):
            script.attributes.pop("defer", None)
        elif script.filename:
            script.attributes["defer"] = "defer"


def _finish(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and isinstance(app.builder, StandaloneHTMLBuilder):
        trim_assets(Path(app.outdir))


def trim_assets(site: Path) -> None:
    """Draw the icons that pages show without a font or a script, and remove the files that no page loads."""
    static = site / "_static"
    pages = "".join(page.read_text(encoding="utf-8") for page in site.rglob("*.html") if static not in page.parents)
    shown = {name for classes in re.findall(r'class="([^"]*)"', pages) for name in re.findall(r"\bfa-(\S+)", classes)}
    theme = static / "styles" / "pydata-sphinx-theme.css"
    plain = _ICON_RULES.sub("", theme.read_text(encoding="utf-8"))
    theme.write_text(plain + icons(shown), encoding="utf-8")
    files = [path for path in static.rglob("*") if path.is_file()]
    loaded = [path for path in files if path.suffix in (".css", ".js") and f"/{path.name}" in pages]
    text = pages + "".join(path.read_text(encoding="utf-8") for path in loaded)
    for path in files:
        if path.suffix == ".map" or not _names(text, path.name):
            path.unlink()
    for folder in sorted((path for path in static.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def _names(text: str, name: str) -> bool:
    """Return whether a text has a file's name, whole, as the end of an address or of a quoted path."""
    # what begins with the name itself is found ten times faster than what begins with one of several characters
    places = re.finditer(rf"{re.escape(name)}(?!\w)", text)
    return any(text[place.start() - 1] in "/\"'( " for place in places)


def setup(app: Sphinx) -> None:
    """Register with Sphinx."""
    app.connect("html-page-context", _put_off, priority=950)  # after all that add scripts
    app.connect("build-finished", _finish)
