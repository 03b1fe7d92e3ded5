"""What pages load: icons without a font, and no file that no page names."""

from companion.render.assets import trim_assets

THEME = """a{color:red}.fa-bars:before{content:"\\f0c9"}.fa-bars,.fa-file:before{width:1em}.fa-bars,b{top:0}
@font-face{font-family:Font Awesome\\ 6 Free;src:url(../vendor/icons.woff2)}
@font-face{font-family:Own;src:url(own.woff2)}
/*# sourceMappingURL=theme.css.map */"""
PAGE = """<link href="../_static/styles/pydata-sphinx-theme.css?v=1"><script src="../_static/used.js"></script>
<i class="fa-solid fa-bars"></i>"""


def test_what_no_page_loads_is_taken_away(tmp_path):
    files = {
        "book/a.html": PAGE,
        "_static/styles/pydata-sphinx-theme.css": THEME,
        "_static/styles/theme.css.map": "{}",
        "_static/styles/own.woff2": "",
        "_static/vendor/icons.woff2": "",
        "_static/used.js": "load('by-name.js'); // unused.json",
        "_static/by-name.js": "",
        "_static/unused.js": "load('deep.js')",
        "_static/deep.js": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    trim_assets(tmp_path)
    left = {path.relative_to(tmp_path / "_static").as_posix() for path in (tmp_path / "_static").rglob("*")}
    assert left == {"styles", "styles/pydata-sphinx-theme.css", "styles/own.woff2", "used.js", "by-name.js"}
    style = (tmp_path / "_static" / "styles" / "pydata-sphinx-theme.css").read_text()
    assert style.startswith("a{color:red}.fa-bars,b{top:0}")
    assert "Font Awesome\\" not in style
    assert ".fa-bars{--icon:" in style
