"""A real Slurm of one node on loopback, for the tests: no systemd, no cgroups, no accounting, four pretended GPUs."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = {name: f"/usr/sbin/{name}" for name in ("slurmctld", "slurmd")}
CONFIGURATION = """\
ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
ReturnToService=2
MinJobAge=3600
KillWait=5
DefMemPerCPU=100
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory={memory} Gres=gpu:fake:4 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=1-00:00:00 DefaultTime=10 State=UP
"""


def lacking() -> str | None:
    """Why there can be no cluster on this machine, or None."""
    there = {name: Path(path).exists() or bool(shutil.which(name)) for name, path in PROGRAMS.items()}
    missing = [name for name, found in {**there, "sbatch": bool(shutil.which("sbatch"))}.items() if not found]
    return f"no {', '.join(missing)} (Debian: apt-get install slurm-wlm munge)" if missing else None


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Start a cluster with its files in `folder`; gives its users' environment variables; stops it at the end."""
    host = socket.gethostname().split(".")[0]
    memory = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20 * 0.9)
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    configuration = folder / "slurm.conf"
    content = CONFIGURATION.format(host=host, user=user, ports=_free_ports(), folder=folder, memory=memory)
    configuration.write_text(content)
    (folder / "gres.conf").write_text(f"AutoDetect=off\nNodeName={host} Name=gpu Type=fake File=/dev/tty[0-3]\n")
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    environment = {"SLURM_CONF": str(configuration)}
    both = os.environ | environment
    try:
        subprocess.run([_program("slurmctld")], env=both, check=True)
        subprocess.run([_program("slurmd"), "-N", host], env=both, check=True)
        _wait_until_idle(both, folder)
        yield environment
    finally:
        subprocess.run(["scancel", "--me"], env=both, check=False)
        _wait_until_empty(both)
        for name in ("slurmd", "slurmctld"):
            pid = folder / f"{name}.pid"
            if pid.exists():
                os.kill(int(pid.read_text()), signal.SIGTERM)


def _program(name: str) -> str:
    return shutil.which(name) or PROGRAMS[name]


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _wait_until_idle(environment: dict[str, str], folder: Path) -> None:
    for _ in range(600):
        answer = subprocess.run(["sinfo", "-h", "-o", "%t"], env=environment, capture_output=True, text=True)
        if answer.stdout.strip() == "idle":
            return
        time.sleep(0.1)
    logs = "".join(path.read_text()[-2000:] for path in folder.glob("*.log"))
    raise RuntimeError(f"Slurm did not start: {logs}")


def _wait_until_empty(environment: dict[str, str]) -> None:
    for _ in range(100):
        answer = subprocess.run(["squeue", "-h"], env=environment, capture_output=True, text=True)
        if not answer.stdout.strip():
            return
        time.sleep(0.1)
