# The chapters as a workflow, driven by `rbp book`. Every job is a plain command with declared inputs, outputs, threads
# and resources, so that another executor can run it: `rbp book -- --executor slurm --jobs 20`.
import shlex
import sys
from pathlib import Path

from companion.render import build
from companion.execute.run import chapter_names, find
from companion.project import Project

project = Project(Path.cwd())
chapters = chapter_names(project)
command = shlex.join([sys.executable, "-m", "rbp.cli", "--root", str(project.root)])


onstart:
    # Snakemake's limit to the jobs that start in a second is for clusters: each job that has started wakes the scheduler
    # once a second from then on, and it looks at all inputs of all that wait. Here that is a tenth of the build.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None


rule all:
    input:
        expand("_build/chapters/{chapter}/results.json", chapter=chapters),


rule step:
    input:
        lambda wildcards: build.step_inputs(project, wildcards.step),
    output:
        "_build/steps/{step}.parquet",
    params:
        # of the modules that it imports, not of all: only what an edit can change is made again
        code=lambda wildcards: build.step_code(project, wildcards.step),
    threads: 1
    # what takes long starts first, and before it the steps that it reads, so that no core is left idle at the end
    priority: lambda wildcards: build.step_urgency(project, wildcards.step)
    resources:
        mem_mb=4000,
        runtime=30,
    shell:
        # as in a chapter's kernel, so that the numbers do not depend on who makes the table
        "OMP_NUM_THREADS=1 PYTHONHASHSEED=0 {command} _step {wildcards.step}"


rule chapter:
    input:
        lambda wildcards: build.chapter_inputs(project, wildcards.chapter),
    output:
        "_build/chapters/{chapter}/{chapter}.ipynb",
        "_build/chapters/{chapter}/results.json",
    params:
        code=lambda wildcards: build.chapter_code(project, wildcards.chapter),
    wildcard_constraints:
        chapter=r"\w+",
    threads: 1
    priority: lambda wildcards: find(project, wildcards.chapter).declaration.seconds
    resources:
        mem_mb=2000,
        runtime=30,
    shell:
        "{command} _chapter {wildcards.chapter}"
