"""Whether what a study has to download can be downloaded: asked once, before thirty jobs find out one by one."""

from pathlib import Path

from rbp.errors import DataError
from rbp.extraction.corpora import CORPORA
from rbp.study.file import Study
from rbp.study.jobs import fetch_job, to_fetch

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
    return ("dataset", CORPORA[name].repository) if name in CORPORA else ("model", name)


def _is_here(study: Study, name: str) -> bool:
    """Whether a download was made before, by this study or another: of a commit, at least in part."""
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    if (study.out / fetch_job(study, name).output).is_file():
        return True
    kind, repository = _repository(name)
    snapshots = Path(HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type=kind) / "snapshots"
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
