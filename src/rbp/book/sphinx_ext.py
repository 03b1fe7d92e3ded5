"""What the pages need beyond Jupyter Book: scripts where they are used, and buttons for a repository."""

from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config


def _switch_buttons(app: Sphinx, config: Config) -> None:
    """Source, issue and launch buttons lead to the repository, so they appear once its address is set."""
    options = config.html_theme_options
    known = bool(options.get("repository_url"))
    for button in ("use_repository_button", "use_source_button", "use_issues_button"):
        options[button] = known
    options["launch_buttons"] = (
        {"binderhub_url": "https://mybinder.org", "colab_url": "https://colab.research.google.com"} if known else {}
    )


#: scripts, by what stands in the pages that need them; Plotly weighs 4.8 MB
SCRIPTS = {"plotly-graph-div": ["plotly.min.js"], 'class="rbp-explorer"': ["fits.js", "explorer.js"]}


def _load_scripts(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Only the pages that use a script load it."""
    for mark, scripts in SCRIPTS.items():
        for script in scripts if mark in context.get("body", "") else []:
            app.add_js_file(script)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("config-inited", _switch_buttons)
    app.connect("html-page-context", _load_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
