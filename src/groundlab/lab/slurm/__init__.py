"""Jobs on a Slurm cluster, by submitit: how runs are submitted, and what runs inside a job."""
