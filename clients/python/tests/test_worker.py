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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

import nightshift_worker
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


NAMES = ("id", "lease", "kind", "queue", "version", "key", "meta", "attempt", "attempts", "createdAt", "payload")
CLAIMED = {**{name: name for name in NAMES}, "deadline": "2026-01-01T00:00:00Z"}


@contextlib.contextmanager
def fake_service(answer):
    """A service whose first claim returns a job. `answer(call, body)` returns the responses, or False for none."""
    claimed = threading.Event()
    over = threading.Event()

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            call = self.path.rpartition("/")[2]
            if call == "claim":
                jobs = [] if claimed.is_set() else [CLAIMED]
                if not jobs:
                    over.wait(0.1)
                claimed.set()
                status, found = 200, {"jobs": jobs, "heartbeatSeconds": 0.3}
            else:
                status, found = answer(call, body) or (over.wait(60), None)
            if found is not None:
                data = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Requests) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            over.set()
            server.shutdown()


class WorkerTest(unittest.TestCase):
    def setUp(self):
        self.queue = f"q-{uuid.uuid4().hex[:8]}"

    def fake(self, answer):
        service = fake_service(answer)
        self.addCleanup(service.__exit__, None, None, None)
        return service.__enter__()

    def start(self, handlers, url=URL, **options):
        worker = Worker(url, TOKEN, queues=[self.queue], wait=1, **options)
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
            for value in (float("nan"), {1, 2}, "x" * 70_000, "a\x00", {"\\\x00": 1}, ["\udc80"], [2**53 + 1], 10**400):
                with self.assertRaises((ValueError, TypeError)):
                    job.progress(value)
            job.progress(["\\u0000 \U0001f600", 2**60, -(10**23), 2**53 - 1, -0.0])
            job._progress = "\x00"  # the service refuses it
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

    def test_goes_on_after_an_exception_that_has_no_text(self):
        class Broken(Exception):
            def __str__(self):
                raise RuntimeError("no text")

        def fail(payload, job):
            if payload == "broken":
                raise Broken()
            if payload == "retry":
                raise Retry(Broken(), after=0)
            return payload

        self.start({"py-broken": fail}, concurrency=1)
        ids = [enqueue("py-broken", payload, self.queue, attempts=1) for payload in ("broken", "retry", "fine")]
        self.assertEqual(ended(ids[2], "done")["result"], "fine")
        for id in ids[:2]:
            self.assertIn("Broken", ended(id, "dead")["lastError"])

    def test_stores_a_result_as_it_was_returned(self):
        shared = {"n": 1}
        worker = self.start({"py-shared": lambda payload, job: shared}, concurrency=1)
        put = worker._put

        def later(job, end):
            shared["set"] = {1}
            put(job, end)
            del shared["set"]

        worker._put = later
        for id in [enqueue("py-shared", None, self.queue) for _ in range(2)]:
            self.assertEqual(ended(id, "done")["result"], {"n": 1})

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
        job = Job(CLAIMED, 900)
        job.extend(60)
        job.progress({"at": 1})
        first = job._beat()
        self.assertEqual(job._beat(), first)
        job.progress({"at": 2})
        job._sent(first)
        self.assertEqual(job._beat(), {"id": "id", "lease": "lease", "deadline": job._deadline, "progress": {"at": 2}})

    def test_sends_a_heartbeat_again_that_gets_no_response(self):
        beats = []

        def answer(call, body):
            if call == "heartbeat" and body["jobs"]:
                beats.append(body)
                stop = [{"id": "id", "lease": "lease", "reason": "cancelled"}]
                return len(beats) > 1 and (200, {"jobs": [], "stop": stop})
            return 200, {"jobs": [], "stop": []}

        stopped = threading.Event()

        def wait(payload, job):
            if job.wait(60):
                stopped.set()

        self.start({"kind": wait}, self.fake(answer))
        self.assertTrue(stopped.wait(30))

    def test_sends_results_again_until_the_service_can_store_them(self):
        stored = threading.Event()
        # Statuses of proxies in between too.
        statuses = [408, 429, 500, 503, 507, 520, 599] * 4

        def answer(call, body):
            if call == "finish" and statuses:
                return statuses.pop(), {}
            if call == "finish":
                stored.set()
                return 200, {"jobs": [{**body["jobs"][0], "error": None}]}
            return 200, {"jobs": [], "stop": []}

        with mock.patch.object(nightshift_worker, "_BACKOFF_SECONDS", (0.01,)):
            self.start({"kind": lambda payload, job: "result"}, self.fake(answer))
            self.assertTrue(stored.wait(30))

    def test_ends_soon_after_the_grace_period_if_the_service_does_not_answer(self):
        asked = threading.Event()

        def answer(call, body):
            if call == "finish":
                asked.set()
                return False
            return 200, {"jobs": [], "stop": []}

        with mock.patch.object(nightshift_worker, "_LAST_SECONDS", 0.2), fake_service(answer) as url:
            worker = Worker(url, TOKEN, queues=[self.queue], wait=1, grace=0.2)
            worker.job("kind")(lambda payload, job: "result")
            thread = threading.Thread(target=worker.run, daemon=True)
            thread.start()
            self.assertTrue(asked.wait(30))
            worker.stop()
            thread.join(30)
            self.assertFalse(thread.is_alive())

    def test_divides_requests_by_bytes(self):
        requests = []

        def answer(call, body):
            if call == "heartbeat" and len(body["jobs"]) > 0:
                requests.append(len(json.dumps(body)))
            return 200, {"jobs": [], "stop": []}

        with mock.patch.object(nightshift_worker, "_BATCH_BYTES", 100_000), fake_service(answer) as url:
            worker = Worker(url, TOKEN)
            for number in range(10):
                job = Job({**CLAIMED, "id": str(number)}, 900)
                job.progress("x" * 40_000)
                worker._held[job.id, job.lease] = job
            thread = threading.Thread(target=worker._beat_loop, daemon=True)
            thread.start()
            self.assertEqual(len(eventually(lambda: len(requests) >= 5 and requests[:5])), 5)
            worker._drained.set()
        self.assertLess(max(requests), 101_000)

    def test_returns_a_job_before_it_stops_the_handler(self):
        worker = Worker(URL, TOKEN, grace=0)
        job = Job(CLAIMED, 900)
        worker._held[job.id, job.lease] = job
        worker.stop()
        # A handler that ends as soon as it is stopped.
        with mock.patch.object(job, "_stop", lambda reason: worker._put(job, {"outcome": "cancelled"})):
            worker._drain()
        self.assertEqual(worker._ends.get()[1]["outcome"], "returned")

    def test_counts_the_grace_period_from_the_stop(self):
        begun = threading.Event()
        release = threading.Event()
        claims = iter([[Job(CLAIMED, 900)]])

        def claim(worker, room):
            return next(claims, None) or release.wait(60) and []

        def wait(payload, job):
            begun.set()
            job.wait(60)

        ended = []
        finish = mock.patch.object(Worker, "_finish", lambda _, ends: ended.extend(ends))
        with mock.patch.object(Worker, "_claim", claim), finish:
            worker = Worker(URL, TOKEN, grace=3600)
            worker.job("kind")(wait)
            thread = threading.Thread(target=worker.run, daemon=True)
            thread.start()
            self.assertTrue(begun.wait(60))
            worker.stop()
            worker._stopped_at -= 3600  # the claim has waited for the whole period
            release.set()
            thread.join(30)
            self.assertFalse(thread.is_alive())
        self.assertEqual(ended[0][1]["outcome"], "returned")

    def test_uses_a_new_connection_if_the_service_has_closed_an_idle_one(self):
        client = _Client(URL, TOKEN)
        self.addCleanup(client.close)
        about = {"id": uuid.uuid4().hex}
        client.post("heartbeat", {"worker": about, "jobs": []})
        kept = client._local.connection
        self.assertEqual(select.select([kept.sock], [], [], 60)[0], [kept.sock])  # closed by the service
        self.assertEqual(client.post("heartbeat", {"worker": about, "jobs": []})["jobs"], [])

    def test_refuses_options_that_cannot_work(self):
        for options in ({"token": "\u2026"}, {"token": ""}, {"token": "a\nb"}, {"concurrency": 0}, {"url": "127.0.0.1"}):
            with self.assertRaisesRegex(ValueError, next(iter(options))):
                Worker(**{"url": URL, "token": TOKEN, **options})

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
            "import sys, time\n"
            "from nightshift_worker import Worker\n"
            f"worker = Worker({URL!r}, {TOKEN!r}, queues=[{self.queue!r}], wait=1, grace=0.5)\n"
            "@worker.job('py-slow')\n"
            "def slow(payload, job):\n"
            "    print('begun', flush=True)\n"
            "    time.sleep(600)\n"
            "worker.run()\n"
            "sys.exit(7)\n"
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
