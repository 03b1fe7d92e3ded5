"""Run a study: Snakemake over its jobs, on this machine or on a Slurm cluster."""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rbp.book import workers
from rbp.core.errors import DataError, ParameterError, RbpError
from rbp.core.files import lock, write_json
from rbp.core.names import split_names
from rbp.core.paths import ROOT, Project
from rbp.ranks.corpora import CORPORA
from rbp.study.config import Study
from rbp.study.jobs import bundles_file, fetch_job, freshen, to_fetch
from rbp.study.plan import bundles, job_memory, jobs_here, make_plan
from rbp.study.report import lines_of, summary

PATIENCE = 10.0  # seconds that the hub has to answer


def must_reach(study: Study) -> None:
    """Raise DataError if a model or corpus is not on this machine, and the hub says nothing of it."""
    left = [name for name in to_fetch(study) if not _is_here(study, name)]
    if left and not _answers(left[0]):
        more = f" and {len(left) - 1} more" if left[1:] else ""
        what = f"{left[0]}{more} must be downloaded, and the hub cannot be reached"
        remedy = "Connect this machine, unset HF_HUB_OFFLINE, or name folders and files of your own in the study."
        raise DataError(what, str(study.path), remedy)


def _repository(name: str) -> tuple[str, str]:
    return ("dataset", CORPORA[name].repository) if name in CORPORA else ("model", name.partition("@")[0])


def _is_here(study: Study, name: str) -> bool:
    """Whether a download was made before, by this study or another: of a commit, at least in part."""
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    if (study.out / fetch_job(name).output).is_file():
        return True
    kind, repository = _repository(name)
    cache = Path(HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type=kind)
    snapshots, revision = cache / "snapshots", name.partition("@")[2]
    if revision:
        return (cache / "refs" / revision).is_file() or (snapshots / revision).is_dir()
    return snapshots.is_dir() and any(snapshots.iterdir())


def _answers(name: str) -> bool:
    """Whether the hub says anything of a repository, be it that there is none, or that it wants a login."""
    from huggingface_hub import HfApi, errors

    kind, repository = _repository(name)
    try:
        HfApi().repo_info(repository, repo_type=kind, timeout=PATIENCE)
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        return True
    except Exception:  # of whatever HTTP client it has, of a gateway between, and where it is told to stay offline
        return False
    return True


Profile = Literal["local", "slurm"]
SNAKEFILE = ROOT / "studies" / "Snakefile"
AT_ONCE = 100  # jobs in Slurm's queue, by default
#: What the jobs of a study import beside this program, a model of some architecture included, which brings what all of
#: them need. Nothing of it asks for GPUs: CUDA does not work in a fork of a process that has.
WARM = (
    *("rbp.study.tasks", "rbp.study.report", "rbp.ranks.extraction", "rbp.evidence"),
    "transformers.models.gpt_neox.modeling_gpt_neox",
)


@dataclass(frozen=True)
class Place:
    """Where a study runs.

    profile; device: of the shards; gpus: those of this machine that the jobs share, as `CUDA_VISIBLE_DEVICES` names
    them; ask: whether a shard asks for a GPU.
    """

    profile: Profile
    device: Literal["cpu", "cuda"]
    gpus: tuple[str, ...]
    ask: bool


def find_place(study: Study, profile: str | None, gpus: str | None) -> Place:
    """Where to run: the profile that is asked for, or what the machine has.

    gpus: of this machine, with commas. Raises ParameterError for an unknown profile, and where a GPU is asked for and
    none is there.
    """
    if profile not in (None, "local", "slurm"):
        raise ParameterError(f'there is no profile "{profile}"', "--profile", "There is: local, slurm.")
    chosen: Profile = "slurm" if profile == "slurm" or (profile is None and shutil.which("sbatch")) else "local"
    if chosen == "slurm":
        if shutil.which("sbatch") is None:
            raise ParameterError("this machine has no sbatch", "--profile slurm", "Take --profile local.")
        if gpus is not None:
            raise ParameterError("Slurm hands out its own GPUs", "--gpus", "Leave --gpus out, or take --profile local.")
    content = study.content
    wants = content.device != "cpu" if content.gpus == "auto" else content.gpus == 1
    listed: tuple[str, ...] = ()
    if not wants:
        return Place(chosen, "cuda" if content.device == "cuda" else "cpu", (), False)
    if chosen == "slurm":
        there = _slurm_has_gpus()
    else:
        listed = _names(gpus) if gpus is not None else _gpus_here()
        there = bool(listed)
    if not there and (content.device == "cuda" or content.gpus == 1):
        what = "the study asks for GPUs, and " + ("the cluster" if chosen == "slurm" else "this machine") + " has none"
        raise ParameterError(what, str(study.path), 'Set device = "cpu" and gpus = 0, or run it elsewhere.')
    on_gpu = there and content.device != "cpu"
    return Place(chosen, "cuda" if on_gpu else "cpu", listed, there)


def run(study: Study, project: Project, place: Place, jobs: int | None = None, extra: Sequence[str] = ()) -> bool:
    """Do all that is left of a study; whether everything is done. What was done before is looked at first.

    jobs: at once; extra: arguments for Snakemake. Lines of progress go to stderr. Raises DataError if another
    run of the study is at work, or the hub is needed and cannot be reached; ParameterError if a model needs more
    memory than the GPU has, or than this machine.
    """
    _must_fit(study, place)
    must_reach(study)
    study.out.mkdir(parents=True, exist_ok=True)
    with _alone(study):
        if place.profile == "slurm":
            _cancel_left_over(study)
        for line in freshen(study):
            _say(line)
        shutil.rmtree(study.out / "bundles", ignore_errors=True)  # what an earlier run's jobs say of their shards
        at_once = (jobs or AT_ONCE) if place.profile == "slurm" else None
        write_json(bundles_file(study), bundles(study, place.device == "cuda", at_once))
        log = study.out / "logs" / "snakemake.log"
        log.parent.mkdir(exist_ok=True)
        ended = threading.Event()
        teller = threading.Thread(target=_tell, args=(study, ended), daemon=True)
        teller.start()
        # On Slurm each job is a process on some other machine.
        program = sorted(name for name in sys.modules if name.startswith(f"{__package__.partition('.')[0]}."))
        warm = workers.served((*program, *WARM)) if place.profile == "local" else contextlib.nullcontext()
        try:
            with _output_to(log), warm:
                code = _snakemake(_arguments(study, project, place, jobs, extra))
        finally:
            ended.set()
            teller.join()
    if code and not summary(study).counts["failed"]:  # no job of ours says why
        _say(_last_lines(log))
    return code == 0


def _arguments(study: Study, project: Project, place: Place, jobs: int | None, extra: Sequence[str]) -> list[str]:
    config = {
        "root": project.root,
        "home": project.runs.parent,
        "profile": place.profile,
        "prefix": _prefix(study),
        "study": study.path,
        "device": place.device,
        "gpu": int(place.ask),
        "gpus": ",".join(place.gpus),
    }
    arguments = ["--snakefile", str(SNAKEFILE), "--directory", str(study.out), "--nolock", "--rerun-triggers", "mtime"]
    arguments += ["input", "--profile", str(SNAKEFILE.parent / "profiles" / place.profile)]
    threads = study.content.threads
    if place.profile == "slurm":
        arguments += ["--cores", str((jobs or AT_ONCE) * threads)]
    else:
        at_once = jobs or (len(place.gpus) if place.gpus else jobs_here(study))
        arguments += ["--cores", str(at_once * threads), "--resources", f"mem_mb={_memory()}"]
        arguments += [f"gpu={len(place.gpus)}"] if place.gpus else []
    return [*arguments, *extra, "--config", *(f"{key}={value}" for key, value in config.items())]


def _snakemake(arguments: list[str]) -> int:
    """Run Snakemake within this process: whatever ends this process ends the driver, and leaves no other one."""
    from snakemake.cli import main

    try:
        main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


@contextlib.contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Send what this process and its children print to a file, but for `_say`."""
    global _told
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    _told = kept[1]
    with log.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        _told = 2
        for number, old in enumerate(kept, 1):
            os.dup2(old, number)
            os.close(old)


_told = 2  # the file descriptor that `_say` writes to


def _say(line: str, end: str = "\n") -> None:
    os.write(_told, f"{line}{end}".encode())


def _tell(study: Study, ended: threading.Event) -> None:
    """Print how the study stands: a line that renews itself on a terminal, one for each change elsewhere."""
    terminal, last = os.isatty(2), ""
    while not ended.wait(1.0):
        line = lines_of(study, summary(study))[0]
        if terminal:
            _say(f"\r{line}\033[K", "")
        elif line != last:
            _say(f"{time.strftime('%H:%M:%S')}  {line}")
        last = line
    if terminal:
        _say("\r\033[K", "")


@contextlib.contextmanager
def _alone(study: Study) -> Iterator[None]:
    with (study.out / "driver.lock").open("a+") as stream:
        held = lock(stream)
        if held is False:
            remedy = "Watch it: rbp study status --watch; or stop it first."
            raise DataError("this study is being run already", str(study.out), remedy)
        if held is None:
            _say("This file system has no locks: see to it that the study is run once at a time.")
        yield


def is_driven(study: Study) -> bool:
    """Whether `rbp study run` is at work on this study (on this machine, or where locks are passed on)."""
    try:
        with (study.out / "driver.lock").open("r+") as stream:
            return lock(stream) is False
    except OSError:  # it was never run, or that cannot be seen
        return False


def _must_fit(study: Study, place: Place) -> None:
    plan, content = make_plan(study), study.content
    if place.device == "cuda":
        has, gigabytes = content.gpu.name, content.gpu.memory
        large = [(name, need / 1e9) for name, need in plan.too_large]
    elif place.profile == "local":
        has, gigabytes = "this machine", _memory() / 1e3
        needed = [(cost.cell.model.name, job_memory(study, cost.cell, False) / 1e3) for cost in plan.costs if cost.size]
        large = [(name, need) for name, need in needed if need > gigabytes]
    else:
        return
    if large:
        name, need = large[0]
        what = f"{name} needs {need:.1f} GB in {content.dtype}, and {has} has {gigabytes:.1f} GB"
        remedy = "A shard runs on one GPU or one machine. Take a shorter dtype, more memory, or leave the model out."
        raise ParameterError(what, str(study.path), remedy)


def _memory() -> int:
    """Megabytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000


def _prefix(study: Study) -> str:
    """What the names of a study's Slurm jobs begin with."""
    return "rbp-" + hashlib.sha256(str(study.out).encode()).hexdigest()[:12]


def _cancel_left_over(study: Study) -> None:
    """Cancel the jobs of a driver that was killed: they would do what is about to be done again."""
    listed = [line.partition(" ") for line in _asked("squeue", "--me", "--noheader", "--format=%A %j").splitlines()]
    left = [number for number, _, name in listed if name.startswith(_prefix(study))]
    if left:
        _say(f"{len(left)} jobs of an earlier run are still there: cancelled; what they have measured is kept")
        _asked("scancel", *left)


def _slurm_has_gpus() -> bool:
    return "gpu" in _asked("sinfo", "--noheader", "--format=%G")


def _asked(*command: str) -> str:
    """What a command of Slurm prints. Raises RbpError if it fails."""
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if answer.returncode:
        said = answer.stderr.strip().splitlines() or [f"exit {answer.returncode}"]
        raise RbpError(f"{command[0]} failed: {said[-1]}", "Slurm", "Is the controller up? Or take --profile local.")
    return answer.stdout


def _gpus_here() -> tuple[str, ...]:
    from rbp.ranks.extraction import gpus

    return tuple(gpus())


def _names(gpus: str) -> tuple[str, ...]:
    names = tuple(split_names(gpus))
    if not names or not all(re.fullmatch(r"[\w-]+", name) for name in names) or len(set(names)) < len(names):
        raise ParameterError(f"{gpus!r} are no GPUs", "--gpus", "Give each once, with commas, such as 0,1.")
    return names


def _last_lines(log: Path) -> str:
    """The end of Snakemake's log: what it stumbled over, such as a job that Slurm did not take."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
