#!/bin/sh
# A run on a cluster with Slurm: sbatch deploy/slurm.sh. Each task computes; the first also leads and writes.
#SBATCH --job-name=accrue
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --signal=TERM@300
#SBATCH --requeue
# Of more than one node: workers.certificates, or workers.insecure_network in a network of the cluster's own, must be set
# in job.toml, and this secret.
ACCRUE_WORKER_TOKEN=${ACCRUE_WORKER_TOKEN:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
export ACCRUE_WORKER_TOKEN

# A job that comes again goes on. job.toml sets run.folder = "runs/story".
if [ -e runs/story/run.toml ]; then set -- --resume runs/story; else set -- job.toml; fi
# A task that is lost takes no other one with it.
exec srun --kill-on-bad-exit=0 accrue train "$@"
