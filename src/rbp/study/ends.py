"""What to do about a job that failed; and why it was stopped, if Slurm did that."""

import errno
import re
from pathlib import Path

from rbp.core.errors import RbpError

AGAIN = "Run the study again: what was measured is kept."
KILLED = f"{AGAIN} If it is killed again, memory may be short: run fewer jobs at once (--jobs), or ask for more."
_MEMORY = "Slurm's retries ask for more each time; sbatch = [\"--mem=64G\"] in the study's file does at once."
_SPACE = f"Free some space, or give the study another output. {AGAIN}"
_TIME = f'{AGAIN} It needs more time (sbatch = ["--time=8:00:00"] in the study\'s file), or more shards.'
_NODE = f'{AGAIN} If it is that node again, leave it out: sbatch = ["--exclude=NODE"] in the study\'s file.'

# words of Slurm: of slurmstepd at the end of a job's messages, or the job's state, which `submit` puts there
_ENDS = (
    (r"TIME LIMIT|TIMEOUT", "stopped at its time limit", _TIME),
    (r"oom.kill|OUT_OF_MEMORY", "killed: out of memory", _MEMORY),
    (r"NODE.FAIL|BOOT_FAIL", "its node failed", _NODE),
    (r"PREEMPT", "stopped for another job, which goes first", AGAIN),
    (r"CANCELLED", "cancelled", AGAIN),
)


def slurm_log(out: Path, number: str) -> Path:
    """Where the messages of Slurm's job `number` are, for a study in the folder `out`."""
    return out / "logs" / "slurm" / f"{number}.log"


def slurm_end(log: Path) -> tuple[str, str] | None:
    """Why Slurm stopped a job and what to do, by its messages; None if it did not, or nothing is known of it."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    said = "\n".join(line for line in lines if line.startswith(("slurmstepd", "JobState=")))
    return next(((f"{why} (Slurm)", remedy) for words, why, remedy in _ENDS if re.search(words, said, re.I)), None)


def remedy_of(error: BaseException) -> str | None:
    """What to do about an error that ended a job; None where only its log may tell."""
    if isinstance(error, RbpError):
        return error.remedy
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return AGAIN
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _SPACE
    if isinstance(error, MemoryError) or "out of memory" in str(error):  # the latter is CUDA's
        return f"{KILLED} On a GPU: a shorter dtype, or a larger GPU."
    return None
