"""A wheel carries what the package reads of this checkout; all else about the build is in pyproject.toml."""

from itertools import chain
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CARRIED = ["data/published/*", "data/ladder/*.toml", "book/_static/rbp.css"]  # files, by patterns


class BuildPy(build_py):
    """Copies them into the package, but for an installation that is a link to the checkout."""

    def run(self) -> None:
        """Build as ever, then copy."""
        super().run()
        if not self.editable_mode:
            for name in self.carried():
                target = Path(self.build_lib, "rbp", "carried", name)
                self.mkpath(str(target.parent))
                self.copy_file(name, str(target))

    def get_source_files(self) -> list[str]:
        """What a source distribution holds."""
        return [*super().get_source_files(), *self.carried()]

    def carried(self) -> list[str]:
        """Their names."""
        return sorted(map(str, chain.from_iterable(Path().glob(pattern) for pattern in CARRIED)))


setup(cmdclass={"build_py": BuildPy})
