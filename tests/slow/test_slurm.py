"""A study on a real Slurm of one node: one shard is killed, and the store is that of a run in one go.

Needs Debian's packages slurm-wlm and munge. The Slurm runs on loopback without systemd, cgroups or accounting.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "rbp" / "study"))

from test_study import FILE, kill_first_shard, parts, read, unsharded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/usr/sbin/slurmctld").exists(), reason="no Slurm (Debian: slurm-wlm, munge)"),
]

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
ReturnToService=2
DefMemPerCPU=100
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=1-00:00:00 DefaultTime=30 State=UP
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    folder = tmp_path / "slurm"
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir(parents=True)
    host, user = socket.gethostname().split(".")[0], subprocess.check_output(["id", "-un"], text=True).strip()
    memory = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20 * 0.9)
    with socket.socket() as first, socket.socket() as second:
        for listener in (first, second):
            listener.bind(("127.0.0.1", 0))
        ports = first.getsockname()[1], second.getsockname()[1]
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(host=host, user=user, ports=ports, folder=folder, memory=memory))
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    # Snakemake's plugin strips SLURM_CONF from a job, whose srun then looks for /etc/slurm/slurm.conf
    srun = folder / "bin" / "srun"
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={configuration} exec {shutil.which("srun")} "$@"\n')
    srun.chmod(0o755)
    environment = os.environ | {"SLURM_CONF": str(configuration), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    daemons = ["/usr/sbin/slurmctld"], ["/usr/sbin/slurmd", "-N", host]
    try:
        for daemon in daemons:
            subprocess.run(daemon, env=environment, check=True)
        while subprocess.check_output(["sinfo", "-h", "-o", "%t"], env=environment, text=True).strip() != "idle":
            time.sleep(0.2)
        yield environment
    finally:
        for name in ("slurmd", "slurmctld"):
            if (pid := folder / f"{name}.pid").exists():
                os.kill(int(pid.read_text()), signal.SIGTERM)


def test_a_killed_shard_is_repeated_and_the_store_is_the_same(cluster, tmp_path):
    study = read(tmp_path, FILE.replace("shards = 2", "shards = 4"))
    command = [sys.executable, "-m", "rbp.cli", "study", "run", str(study.path), "--profile", "slurm"]
    driver = subprocess.Popen([*command, "--", "--seconds-between-status-checks", "2"], env=cluster)
    kill_first_shard(study.out / "ranks", driver)
    assert driver.wait(1800) == 0
    unsharded(tmp_path / "whole")
    assert parts(study.out / "ranks") == parts(tmp_path / "whole")
