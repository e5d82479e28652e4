"""Jobs on a Slurm cluster: how runs are submitted, what runs inside a job, and what the queue says."""
