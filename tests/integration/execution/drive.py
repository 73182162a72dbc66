"""Runs one job in the sandbox as whoever runs this program, and prints what came of it. It needs the standard library
only: as another user than root, the tests' own interpreter may be out of reach.

python drive.py ROOT-OF-OZZIE PROJECT ARGUMENTS-AS-JSON LIMITS-AS-JSON [PROGRAM-OF-A-PLUGIN]
"""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])


async def main() -> None:
    from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner, Job
    from ozzie_server_ext.execution.runner import JobLimits, JobSpec, ProgramInput

    class Ids:
        def new(self) -> str:
            return "job"

    runner = BubblewrapRunner(Ids())
    if len(sys.argv) > 5:
        given = ProgramInput(stdin=b"given", executable=frozenset({"main"}), env={"KEY": "k 1"}, shown=("data",))
        job = Job(JobSpec(argv=["/job/main"], project=Path(sys.argv[2]), files={"main": sys.argv[5].encode()},
            limits=JobLimits(**json.loads(sys.argv[4])), program=given))  # fmt: skip
        await runner.run(job)
        left = {file.path: file.content.decode() for file in job.collected.out}
        printed, errors = bytes(job.printed).decode(), bytes(job.errors).decode()
        json.dump({"printed": printed, "errors": errors, "left": left, "state": job.status.state}, sys.stdout)
        return
    spec = JobSpec(argv=json.loads(sys.argv[3]), project=Path(sys.argv[2]), limits=JobLimits(**json.loads(sys.argv[4])))
    job_id = await runner.start(spec)
    printed = b"".join([piece.data async for piece in runner.stream_logs(job_id)])
    status = await runner.status(job_id)
    opened = await runner.opened(job_id)
    files = None if opened is None else sorted(opened.files)
    json.dump(
        {"files": files, "printed": printed.decode(errors="replace"), "state": status.state, "reason": status.reason},
        sys.stdout,
    )


asyncio.run(main())
