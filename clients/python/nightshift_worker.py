"""Runs jobs of Nightshift (https://www.npmjs.com/package/nightshift) in Python, over HTTP.

Uses the standard library only. See README.md.
"""

import collections
import decimal
import http.client
import json
import logging
import os
import platform
import queue
import random
import signal
import socket
import threading
import time
import traceback
import urllib.parse
import uuid

__version__ = "0.1.0"
__all__ = ["Worker", "Job", "Retry", "Dead", "Snooze", "Throttled", "Cancelled", "NightshiftError"]

log = logging.getLogger("nightshift")

# Jobs in one request, which is also the limit of the service.
_BATCH = 1000
# Results, or progress, in one request. The service accepts 32 MiB.
_BATCH_BYTES = 8 * 1024 * 1024
# What the service stores at most of a result or a progress, and reads of an error and of a log.
_VALUE_BYTES = 64 * 1024
_ERROR_CHARACTERS = 16 * 1024
_LOG_CHARACTERS = 1024 * 1024
_LINE_CHARACTERS = 8 * 1024
_YEAR_SECONDS = 31_536_000
_SCOPES = ("queue", "key", "job")
_LEVELS = ("trace", "debug", "info", "warn", "error", "fatal")
_BACKOFF_SECONDS = (0.5, 1, 2, 5, 10, 20)
# How long results that could not be sent are sent again after the grace period.
_LAST_SECONDS = 5
_UNSTORABLE = "must not contain NUL characters or unpaired surrogates"


class NightshiftError(Exception):
    """The service refused a request. `status` is the HTTP status, `tag` the name of the error."""

    def __init__(self, status, tag, message):
        super().__init__(f"{tag} ({status}): {message}")
        self.status = status
        self.tag = tag


def _seconds(name, value, least=0):
    # The service refuses other values, together with the results of all jobs in the request.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= _YEAR_SECONDS:
        raise ValueError(f"{name} must be a number of seconds from {least} to {_YEAR_SECONDS}, got {value!r}")
    return value


def _one_of(name, value, known):
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    return value


def _json(value):
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _encoded(value):
    return _json(value).encode("utf-8", "replace")


class _Unstorable(ValueError):
    """The service would not store the value."""


def _copied(name, value):
    """A copy of a value that can be stored: the handler may change the value before it is sent. Raises if it cannot be stored."""
    text = _json(value)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise _Unstorable(f"{name} {_UNSTORABLE}") from None
    if size > _VALUE_BYTES:
        raise _Unstorable(f"{name} must be at most {_VALUE_BYTES} bytes as JSON, got {size}")
    if "\\u0000" in text.replace("\\\\", ""):
        raise _Unstorable(f"{name} {_UNSTORABLE}")

    def whole(digits):
        nearest = float(digits)
        if nearest != int(digits) and decimal.Decimal(repr(nearest)) != int(digits):
            raise _Unstorable(f"{name} contains {digits[:40]}, which a 64-bit float cannot hold: send it as a string")
        return int(digits)

    return json.loads(text, parse_int=whole)


def _text(error):
    try:
        return str(error)
    except Exception:
        return f"{type(error).__name__}, whose text cannot be read"


class _Outcome(Exception):
    """Raised by a handler to end its attempt in another way than by a result."""

    def __init__(self, *args):
        super().__init__(*map(_text, args))

    def end(self):
        raise NotImplementedError


class Retry(_Outcome):
    """Fails the attempt. The job runs again after `after` seconds, or after the queue's backoff."""

    def __init__(self, error, after=None):
        super().__init__(error)
        self.after = None if after is None else _seconds("after", after)

    def end(self):
        return _without_none(outcome="retry", error=str(self), afterSeconds=self.after)


class Dead(_Outcome):
    """Fails the job for good."""

    def end(self):
        return {"outcome": "dead", "error": str(self)}


class Snooze(_Outcome):
    """Runs the job again after `after` seconds. Uses up no attempt."""

    def __init__(self, after):
        super().__init__(f"snoozed for {after} s")
        self.after = _seconds("after", after)

    def end(self):
        return {"outcome": "snooze", "afterSeconds": self.after}


class Throttled(_Outcome):
    """Pauses the queue, the jobs with the same key, or only this job. Uses up no attempt."""

    def __init__(self, after=None, scope="queue"):
        super().__init__(f"throttled by an upstream service, scope {scope}")
        self.after = None if after is None else _seconds("after", after)
        self.scope = _one_of("scope", scope, _SCOPES)

    def end(self):
        return _without_none(outcome="throttled", afterSeconds=self.after, scope=self.scope)


class Cancelled(_Outcome):
    """The handler stopped because its job was cancelled."""

    def end(self):
        return {"outcome": "cancelled"}


def _without_none(**fields):
    return {name: value for name, value in fields.items() if value is not None}


def _batches(sized):
    """Divides entries of (job, body, bytes) into lists of (job, body), one per request."""
    batch, size = [], 0
    for job, body, length in sized:
        if batch and (len(batch) == _BATCH or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((job, body))
        size += length
    if batch:
        yield batch


class Job:
    """A claimed job. Its methods may be called from any thread of the handler."""

    def __init__(self, claimed, timeout):
        self.id = claimed["id"]
        self.lease = claimed["lease"]
        self.kind = claimed["kind"]
        self.queue = claimed["queue"]
        self.payload = claimed["payload"]
        self.version = claimed["version"]
        self.key = claimed["key"]
        self.meta = claimed["meta"]
        self.attempt = claimed["attempt"]
        self.attempts = claimed["attempts"]
        self.created_at = claimed["createdAt"]
        self._deadline = claimed["deadline"]
        self._timeout = timeout
        self._extend = None
        self._progress = None
        self._lines = collections.deque()
        self._logged = 0
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self.stop_reason = None

    @property
    def stopped(self):
        """Whether the handler should stop: `stop_reason` is cancelled, lost, timeout or shutdown."""
        return self._stopped.is_set()

    def wait(self, seconds):
        """Sleeps, and returns early with True if the handler should stop."""
        return self._stopped.wait(seconds)

    def raise_if_stopped(self):
        """Raises Cancelled if the job was cancelled or lost, or timed out."""
        if self.stopped:
            raise Cancelled(self.stop_reason)

    def extend(self, seconds=None):
        """Moves the deadline to `seconds` from the next heartbeat, by default to the worker's timeout."""
        seconds = self._timeout if seconds is None else _seconds("seconds", seconds, least=1)
        with self._lock:
            self._extend = seconds

    def progress(self, value):
        """Stores the progress with the next heartbeat; only the last value is sent. Raises if it cannot be stored."""
        value = _copied("progress", value)
        with self._lock:
            self._progress = value

    def log(self, message, level="info"):
        """Adds a line that is stored with the job when the attempt ends."""
        _one_of("level", level, _LEVELS)
        text = str(message)[:_LINE_CHARACTERS]
        line = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "level": level, "message": text}
        with self._lock:
            self._lines.append(line)
            self._logged += len(text)
            while len(self._lines) > 1000 or self._logged > _LOG_CHARACTERS:
                self._logged -= len(self._lines.popleft()["message"])

    def _stop(self, reason):
        self.stop_reason = self.stop_reason or reason
        self._stopped.set()

    def _beat(self):
        with self._lock:
            beat = {"id": self.id, "lease": self.lease, "deadline": self._deadline}
            if self._extend is not None:
                beat["extendSeconds"] = self._extend
            if self._progress is not None:
                beat["progress"] = self._progress
            return beat

    def _sent(self, beat, keeps_extension=False):
        """Forgets what a heartbeat has sent, unless the handler has changed it since."""
        with self._lock:
            if self._progress is beat.get("progress"):
                self._progress = None
            if not keeps_extension and self._extend == beat.get("extendSeconds"):
                self._extend = None

    def _end(self, end):
        with self._lock:
            held = {"id": self.id, "lease": self.lease, **end}
            if "error" in held:
                held["error"] = held["error"][:_ERROR_CHARACTERS]
            return {**held, "log": list(self._lines)} if self._lines else held


class _Client:
    """Sends requests over one connection per thread."""

    def __init__(self, url, token):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be an http:// or https:// URL, got {url!r}")
        if not (token.isascii() and token.isprintable() and token):
            raise ValueError("token must be one of NIGHTSHIFT_WORKER_TOKENS of the service, in ASCII")
        self._make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/") + "/api/v1/work/"
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._local = threading.local()
        self._open = set()

    def close(self):
        for connection in list(self._open):
            connection.close()

    def post(self, call, body, timeout=60):
        """Returns the response. Raises NightshiftError, or OSError if there is none."""
        data = _encoded(body)
        kept = getattr(self._local, "connection", None)
        self._local.connection = None
        connection = kept or self._make(self._host, self._port)
        self._open.add(connection)
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        try:
            connection.request("POST", self._prefix + call, data, self._headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self._open.discard(connection)
            if kept is not None and isinstance(error, (ConnectionResetError, BrokenPipeError)):
                # The service closes idle connections. All requests are safe to repeat.
                return self.post(call, body, timeout)
            raise error if isinstance(error, OSError) else ConnectionError(repr(error)) from error
        if response.will_close:
            self._open.discard(connection)
        else:
            self._local.connection = connection
        return self._parsed(response.status, text)

    @staticmethod
    def _parsed(status, text):
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if status == 200:
            if not isinstance(answer, dict) or "jobs" not in answer:
                raise ConnectionError("the response is not that of Nightshift; check the URL of the service")
            return answer
        # A proxy in between responds in its own form.
        error = answer.get("error") if isinstance(answer, dict) else None
        error = error if isinstance(error, dict) else {}
        raise NightshiftError(status, error.get("tag", "Error"), error.get("message", text[:200].decode("utf-8", "replace")))


def _is_transient(error):
    return not isinstance(error, NightshiftError) or error.status in (408, 429) or error.status >= 500


class Worker:
    """Claims jobs and runs their handlers in threads."""

    def __init__(self, url, token, queues=None, concurrency=4, timeout=900, wait=10, grace=25, name=None):
        """
        queues: names of queues; by default the queues of the kinds, which a process must have registered.
        concurrency: maximum number of jobs that run at a time.
        timeout: seconds that an attempt may run, unless it calls job.extend().
        wait: seconds that a claim waits for jobs, up to 50. A stop takes at least until the claim ends.
        grace: seconds that running jobs get to finish after a stop.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency!r}")
        self._client = _Client(url, token)
        self._queues = queues
        self._concurrency = concurrency
        self._timeout = timeout
        self._wait = wait
        self._grace = grace
        self._about = {
            "id": str(uuid.uuid4()),
            "name": name or f"{socket.gethostname()}-{os.getpid()}",
            "runtime": f"python {platform.python_version()}",
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
        self._handlers = {}
        self._held = {}
        self._lock = threading.Lock()
        self._free = threading.Semaphore(concurrency)
        self._stopping = threading.Event()
        self._stopped_at = None
        self._drained = threading.Event()
        self._over = threading.Event()
        self._claimed = queue.SimpleQueue()
        self._ends = queue.SimpleQueue()
        self._heartbeat_seconds = 10

    def job(self, kind):
        """Decorator for the handler of a kind: a function of the payload and the Job. It returns the result."""

        def register(handler):
            self._handlers[kind] = handler
            return handler

        return register

    def stop(self):
        """Stops claiming. `run` returns when the running jobs have ended, or after the grace period."""
        # The grace period begins now, and not when the claim that waits has ended.
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
        self._stopping.set()

    def run(self, signals=(signal.SIGTERM, signal.SIGINT)):
        """Runs jobs until `stop` is called or a signal arrives. Signals work only in the main thread."""
        if not self._handlers:
            raise ValueError("the worker has no handlers; add some with @worker.job(kind)")
        if threading.current_thread() is threading.main_thread():
            for number in signals:
                signal.signal(number, lambda *_: self.stop())
        helpers = [threading.Thread(target=target, daemon=True) for target in (self._beat_loop, self._finish_loop)]
        for helper in helpers:
            helper.start()
        # Not a ThreadPoolExecutor: the interpreter waits for its threads at exit, even for a handler that never ends.
        for number in range(self._concurrency):
            threading.Thread(target=self._run_loop, name=f"nightshift_{number}", daemon=True).start()
        try:
            self._claim_loop()
        finally:
            self.stop()
            self._drain()
            end = time.monotonic() + _LAST_SECONDS
            for helper in helpers:
                helper.join(max(0, end - time.monotonic()))
            self._over.set()
            for _ in range(self._concurrency):
                self._claimed.put(None)
            self._client.close()

    def _run_loop(self):
        for job in iter(self._claimed.get, None):
            self._run(job)

    def _claim_loop(self):
        failures = 0
        while not self._stopping.is_set():
            # Wait for one free slot, then claim for all that are free.
            if not self._free.acquire(timeout=0.5):
                continue
            room = 1
            while room < self._concurrency and self._free.acquire(blocking=False):
                room += 1
            try:
                claimed = self._claim(room)
                failures = 0
            except (OSError, NightshiftError) as error:
                self._free.release(room)
                if not _is_transient(error):
                    raise
                log.warning("could not claim jobs, trying again: %s", error)
                self._stopping.wait(_delay(failures))
                failures += 1
                continue
            if len(claimed) < room:
                self._free.release(room - len(claimed))
            for job in claimed:
                with self._lock:
                    self._held[job.id, job.lease] = job
                self._claimed.put(job)

    def _claim(self, room):
        body = _without_none(
            worker=self._about,
            queues=self._queues,
            kinds=sorted(self._handlers),
            max=min(room, _BATCH),
            waitSeconds=self._wait,
            timeoutSeconds=self._timeout,
        )
        answer = self._client.post("claim", body, timeout=self._wait + 30)
        self._heartbeat_seconds = answer["heartbeatSeconds"]
        return [Job(each, self._timeout) for each in answer["jobs"]]

    def _run(self, job):
        try:
            if self._stopping.is_set() and not job.stopped:
                end = {"outcome": "returned"}
            else:
                end = self._ended(job)
            if job.stop_reason in ("lost", "timeout"):
                self._forget(job)
            else:
                self._put(job, end)
        finally:
            self._free.release()

    def _ended(self, job):
        try:
            result = self._handlers[job.kind](job.payload, job)
            try:
                return _without_none(outcome="done", result=_copied("its result", result))
            except _Unstorable as error:
                return {"outcome": "dead", "error": str(error)}
        except _Outcome as outcome:
            return outcome.end()
        except BaseException as error:  # a handler's sys.exit() must not end the worker's thread
            log.warning("job %s of kind %s failed: %r", job.id, job.kind, error)
            trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            return {"outcome": "failed", "error": f"{type(error).__name__}: {_text(error)}\n{trace}"}

    def _put(self, job, end):
        whole = job._end(end)
        self._ends.put((job, whole, len(_encoded(whole))))

    def _forget(self, job):
        with self._lock:
            self._held.pop((job.id, job.lease), None)

    def _beat_loop(self):
        pause = 0.5
        while not self._drained.wait(pause):
            began = time.monotonic()
            with self._lock:
                jobs = list(self._held.values())
            beats = [(job, job._beat()) for job in jobs]
            for batch in _batches((job, beat, len(_encoded(beat))) for job, beat in beats):
                self._beat(batch)
            # One that got no response has taken the time until the next one.
            pause = max(0, began + self._heartbeat_seconds - time.monotonic()) if jobs else 0.5

    def _beat(self, beats):
        held = {(job.id, job.lease): job for job, _ in beats}
        body = {"worker": self._about, "jobs": [beat for _, beat in beats]}
        try:
            # A connection may be dead without an error: several heartbeats must fit into QUEUE_STALE_AFTER.
            answer = self._client.post("heartbeat", body, timeout=self._heartbeat_seconds)
        except (OSError, NightshiftError) as error:
            log.warning("could not send a heartbeat: %s", error)
            if not _is_transient(error):
                # It may be a progress that cannot be stored: the next heartbeat goes without.
                for job, beat in beats:
                    job._sent(beat, keeps_extension=True)
            return
        for job, beat in beats:
            job._sent(beat)
        for each in answer["jobs"]:
            held[each["id"], each["lease"]]._deadline = each["deadline"]
            if each.get("error") is not None:
                log.warning("job %s: %s", each["id"], each["error"]["message"])
        for each in answer["stop"]:
            held[each["id"], each["lease"]]._stop(each["reason"])

    def _finish_loop(self):
        """Sends results in batches. A request that got no response is repeated, which the service recognizes."""
        last = False
        while not last:
            ends = [self._ends.get()]
            while not self._ends.empty():
                ends.append(self._ends.get())
            last = None in ends
            for batch in _batches(end for end in ends if end is not None):
                self._finish(batch)

    def _finish(self, ends):
        failures = 0
        while True:
            try:
                answer = self._client.post("finish", {"worker": self._about, "jobs": [end for _, end in ends]})
                break
            except (OSError, NightshiftError) as error:
                if not _is_transient(error):
                    self._refused(ends, error)
                    return
                if self._over.is_set():
                    log.error("the results of %d jobs were not stored: %s", len(ends), error)
                    return
                log.warning("could not send the results of %d jobs, trying again: %s", len(ends), error)
                if self._stopping.wait(_delay(failures)):
                    self._over.wait(_delay(0))  # the time is short
                failures += 1
        for each in answer["jobs"]:
            if each["error"] is not None:
                log.warning("job %s: %s", each["id"], each["error"]["message"])
        for job, _ in ends:
            self._forget(job)

    def _refused(self, ends, error):
        """One result that the service cannot read must not lose the others of its request."""
        if len(ends) > 1 and error.status in (400, 413):
            middle = len(ends) // 2
            self._finish(ends[:middle])
            self._finish(ends[middle:])
            return
        log.error("the service refused the results of %d jobs: %s", len(ends), error)
        prefix = "the service refused the result: "
        for job, end in ends:
            if error.status in (400, 413) and not end.get("error", "").startswith(prefix):
                failed = {"id": job.id, "lease": job.lease, "outcome": "failed", "error": f"{prefix}{error}"}
                self._finish([(job, failed)])
            self._forget(job)

    def _drain(self):
        deadline = self._stopped_at + self._grace
        while self._held and time.monotonic() < deadline:
            time.sleep(0.05)
        with self._lock:
            left = list(self._held.values())
        for job in left:
            if not job.stopped:
                # In this order: a handler that ends at once must not end its attempt. The first end counts.
                self._put(job, {"outcome": "returned"})
                job._stop("shutdown")
        self._drained.set()
        self._ends.put(None)
        try:
            self._client.post("heartbeat", {"worker": self._about, "jobs": [], "leave": True}, timeout=5)
        except (OSError, NightshiftError) as error:
            log.warning("could not say goodbye: %s", error)


def _delay(failures):
    seconds = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)]
    return seconds * (0.5 + random.random() / 2)
