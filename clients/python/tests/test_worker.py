"""Tests against a running service: `npm run test:clients` starts one and sets these variables."""

import contextlib
import http.client
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse
import uuid
from datetime import timedelta

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from nightshift_worker import Cancelled, Dead, Job, NightshiftError, Retry, Snooze, Throttled, Worker, _Client

URL = os.environ["NIGHTSHIFT_URL"]
ADMIN = os.environ["NIGHTSHIFT_ADMIN_TOKEN"]
TOKEN = os.environ["NIGHTSHIFT_WORKER_TOKEN"]


def ask(method, path, body=None):
    parts = urllib.parse.urlsplit(URL)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}
    connection.request(method, "/api/v1" + path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def enqueue(kind, payload, queue, **more):
    status, answer = ask("POST", "/jobs", {"kind": kind, "payload": payload, "queue": queue, "force": True, **more})
    if status != 201:
        raise AssertionError(answer)
    return answer["id"]


def job(id):
    return ask("GET", f"/jobs/{id}")[1]


def eventually(check, seconds=60):
    """Waits until `check` returns something true, and returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("nothing happened in time")


def ended(id, state):
    def check():
        found = job(id)
        return found if found["state"] == state else None

    return eventually(check)


class WorkerTest(unittest.TestCase):
    def setUp(self):
        self.queue = f"q-{uuid.uuid4().hex[:8]}"

    def start(self, handlers, **options):
        worker = Worker(URL, TOKEN, queues=[self.queue], wait=1, **options)
        for kind, handler in handlers.items():
            worker.job(kind)(handler)
        thread = threading.Thread(target=worker.run)
        thread.start()

        def stop():
            worker.stop()
            thread.join(60)
            self.assertFalse(thread.is_alive())

        self.addCleanup(stop)
        return worker

    def test_runs_jobs_and_reports_results(self):
        def shout(payload, job):
            job.log(f"attempt {job.attempt}")
            return {"shouted": payload["text"].upper(), "at": job.created_at}

        self.start({"py-shout": shout})
        ids = [enqueue("py-shout", {"text": f"hi {n}"}, self.queue) for n in range(50)]
        for n, id in enumerate(ids):
            found = ended(id, "done")
            self.assertEqual(found["result"], {"shouted": f"HI {n}", "at": found["createdAt"]})
        status, logs = ask("GET", f"/jobs/{ids[0]}/logs")
        self.assertIn("attempt 1", json.dumps(logs))

    def test_ends_attempts_by_exceptions(self):
        def fail(payload, job):
            if payload == "dead":
                raise Dead("never again")
            if payload == "retry":
                raise Retry("later", after=3600)
            if payload == "snooze":
                raise Snooze(3600)
            raise KeyError(payload)

        self.start({"py-fail": fail})
        dead = enqueue("py-fail", "dead", self.queue)
        retry = enqueue("py-fail", "retry", self.queue)
        snooze = enqueue("py-fail", "snooze", self.queue)
        bug = enqueue("py-fail", "bug", self.queue, attempts=1)
        self.assertIn("never again", ended(dead, "dead")["lastError"])
        self.assertEqual(eventually(lambda: job(retry)["lastError"]), "later")
        self.assertEqual(eventually(lambda: job(snooze)["history"])[0]["outcome"], "snoozed")
        self.assertIn("KeyError: 'bug'", ended(bug, "dead")["lastError"])

    def test_stops_a_cancelled_job(self):
        begun = threading.Event()

        def wait(payload, job):
            begun.set()
            if job.wait(60):
                raise Cancelled(job.stop_reason)

        self.start({"py-wait": wait})
        id = enqueue("py-wait", None, self.queue)
        self.assertTrue(begun.wait(60))
        ask("POST", f"/jobs/{id}/cancel")
        ended(id, "cancelled")

    def test_keeps_its_jobs_although_a_progress_cannot_be_stored(self):
        begun = threading.Event()

        def stubborn(payload, job):
            for value in (float("nan"), {1, 2}, "x" * 70_000):
                with contextlib.suppress(ValueError, TypeError):
                    job.progress(value)
            job.progress("\x00")  # the service refuses it
            begun.set()
            if job.wait(60):
                raise Cancelled(job.stop_reason)

        self.start({"py-stubborn": stubborn})
        id = enqueue("py-stubborn", None, self.queue)
        self.assertTrue(begun.wait(60))
        ask("POST", f"/jobs/{id}/cancel")
        ended(id, "cancelled")

    def test_fails_only_the_attempt_whose_end_is_not_valid(self):
        def odd(payload, job):
            if payload == "snooze":
                raise Snooze(timedelta(minutes=5))
            if payload == "scope":
                raise Throttled(scope="world")
            if payload == "level":
                job.log("hello", level="loud")
            if payload == "large":
                return "x" * 40_000_000
            if payload == "lone":
                raise Dead("\udc80")
            return payload

        self.start({"py-odd": odd}, concurrency=8)
        ids = {name: enqueue("py-odd", name, self.queue, attempts=1) for name in
               ("snooze", "scope", "level", "large", "lone", "fine")}
        self.assertEqual(ended(ids["fine"], "done")["result"], "fine")
        for name, text in (
            ("snooze", "after must be a number of seconds"),
            ("scope", "scope must be one of queue, key, job"),
            ("level", "level must be one of trace, debug"),
            ("large", "its result must be at most 65536 bytes"),
            ("lone", "?"),
        ):
            self.assertIn(text, ended(ids[name], "dead")["lastError"])

    def test_reports_a_result_that_the_service_refuses(self):
        worker = self.start({"py-refused": lambda payload, job: payload}, concurrency=8)
        put = worker._put

        def broken(job, end):
            put(job, {**end, "outcome": "nonsense"} if job.payload == "bad" else end)

        worker._put = broken
        bad = enqueue("py-refused", "bad", self.queue, attempts=1)
        ids = [enqueue("py-refused", "good", self.queue) for _ in range(5)]
        for id in ids:
            ended(id, "done")
        self.assertIn("the service refused the result", ended(bad, "dead")["lastError"])

    def test_sends_again_what_a_heartbeat_could_not(self):
        names = ("id", "lease", "kind", "queue", "version", "key", "meta", "attempt", "attempts", "createdAt")
        claimed = {name: name for name in names}
        job = Job({**claimed, "payload": None, "deadline": "2026-01-01T00:00:00Z"}, 900)
        job.extend(60)
        job.progress({"at": 1})
        first = job._beat()
        self.assertEqual(job._beat(), first)
        job.progress({"at": 2})
        job._sent(first)
        self.assertEqual(job._beat(), {"id": "id", "lease": "lease", "deadline": job._deadline, "progress": {"at": 2}})

    def test_uses_a_new_connection_if_the_service_has_closed_an_idle_one(self):
        client = _Client(URL, TOKEN)
        self.addCleanup(client.close)
        about = {"id": uuid.uuid4().hex}
        client.post("heartbeat", {"worker": about, "jobs": []})
        kept = client._local.connection
        self.assertEqual(select.select([kept.sock], [], [], 60)[0], [kept.sock])  # closed by the service
        self.assertEqual(client.post("heartbeat", {"worker": about, "jobs": []})["jobs"], [])

    def test_reads_the_responses_of_proxies(self):
        for text in (b'{"error": "bad gateway"}', b"<html>", b"[]", b"null"):
            with self.assertRaises(NightshiftError):
                _Client._parsed(502, text)
            with self.assertRaises(OSError):
                _Client._parsed(200, text)

    def test_refuses_queues_that_the_token_does_not_allow(self):
        worker = Worker(URL, os.environ["NIGHTSHIFT_NARROW_TOKEN"], queues=[self.queue], wait=1)
        worker.job("py-none")(lambda payload, job: None)
        with self.assertRaises(NightshiftError) as caught:
            worker.run()
        self.assertEqual(caught.exception.status, 403)

    def test_returns_running_jobs_on_sigterm(self):
        id = enqueue("py-slow", None, self.queue)
        program = (
            "import os\n"
            "from nightshift_worker import Worker\n"
            f"worker = Worker({URL!r}, {TOKEN!r}, queues=[{self.queue!r}], wait=1, grace=0.5)\n"
            "@worker.job('py-slow')\n"
            "def slow(payload, job):\n"
            "    print('begun', flush=True)\n"
            "    job.wait(600)\n"
            "worker.run()\n"
            "os._exit(7)\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.path.join(os.path.dirname(__file__), "..")},
        )
        with child.stdout:
            self.assertEqual(child.stdout.readline(), b"begun\n")
            child.send_signal(signal.SIGTERM)
            self.assertEqual(child.wait(60), 7)
        returned = job(id)
        self.assertEqual(returned["attempt"], 0)
        self.assertEqual(returned["history"][0]["outcome"], "interrupted by shutdown")

        # Another worker runs it.
        self.start({"py-slow": lambda payload, job: "done"})
        self.assertEqual(ended(id, "done")["result"], "done")


if __name__ == "__main__":
    unittest.main()
