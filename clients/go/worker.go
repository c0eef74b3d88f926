// Package nightshift runs jobs of the Nightshift job queue in Go, over HTTP.
package nightshift

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"math/big"
	"math/rand"
	"net/http"
	urls "net/url"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	// maxBatch is the number of jobs in one request, which is also the limit of the service.
	maxBatch = 1000
	// maxBatchBytes is the size of the results, or progress, in one request. The service accepts 32 MiB.
	maxBatchBytes = 8 << 20
	// What the service stores at most of a result or a progress, and reads of an error and of a log.
	maxValueBytes = 64 << 10
	maxErrorBytes = 16 << 10
	maxLogBytes   = 1 << 20
	maxLineBytes  = 8 << 10
	maxSeconds    = 31_536_000
)

var (
	// backoff is the seconds between failed requests.
	backoff = []float64{0.5, 1, 2, 5, 10, 20}
	// lastTries is how long results that could not be sent are sent again after the grace period.
	lastTries = 5 * time.Second
)

const refusedText = "the service refused the result: "

// Handler runs a job. The context is cancelled when the job must stop, and Job.StopReason says why.
// The returned value is the job's result. An error fails the attempt, unless it is made by Retry, Dead, Snooze, Throttled
// or Cancelled.
type Handler func(ctx context.Context, job *Job) (any, error)

// Options of a Worker. URL, Token and Handlers are required.
type Options struct {
	// URL of the service, such as http://127.0.0.1:8787.
	URL string
	// Token is one of NIGHTSHIFT_WORKER_TOKENS of the service.
	Token string
	// Handlers by kind.
	Handlers map[string]Handler
	// Queues to claim from. By default the queues of the kinds, which a process must have registered.
	Queues []string
	// Concurrency is the maximum number of jobs that run at a time. [4]
	Concurrency int
	// Timeout of an attempt, unless it calls Job.Extend. [15 minutes]
	Timeout time.Duration
	// Wait is how long a claim waits for jobs, up to 50 seconds. A stop takes at least until the claim ends. [10 seconds]
	Wait time.Duration
	// Grace is how long running jobs may go on after a stop. [25 seconds]
	Grace time.Duration
	// Name in the list of processes. [host name and process id]
	Name string
	// Client sends the requests. [http.DefaultClient]
	Client *http.Client
	// Logf reports failed requests. [log.Printf]
	Logf func(format string, args ...any)
}

// Error is a response that refuses a request.
type Error struct {
	Status  int
	Tag     string
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d): %s", e.Tag, e.Status, e.Message) }

type outcome struct {
	end map[string]any
}

func (o *outcome) Error() string { return fmt.Sprintf("%v: %v", o.end["outcome"], o.end["error"]) }

// Retry fails the attempt. The job runs again after the delay.
func Retry(err error, after time.Duration) error {
	return &outcome{map[string]any{"outcome": "retry", "error": err.Error(), "afterSeconds": seconds(after, 0)}}
}

// Dead fails the job for good.
func Dead(err error) error { return &outcome{map[string]any{"outcome": "dead", "error": err.Error()}} }

// Snooze runs the job again after the delay. It uses up no attempt.
func Snooze(after time.Duration) error {
	return &outcome{map[string]any{"outcome": "snooze", "afterSeconds": seconds(after, 0)}}
}

// Throttled pauses a scope: "queue", "key" or "job". It uses up no attempt.
func Throttled(after time.Duration, scope string) error {
	return &outcome{map[string]any{"outcome": "throttled", "afterSeconds": seconds(after, 0), "scope": scope}}
}

// Cancelled ends a job that was cancelled.
func Cancelled() error { return &outcome{map[string]any{"outcome": "cancelled"}} }

// Job is a claimed job. Its methods are safe for concurrent use.
type Job struct {
	ID       string          `json:"id"`
	Lease    string          `json:"lease"`
	Queue    string          `json:"queue"`
	Kind     string          `json:"kind"`
	Version  int             `json:"version"`
	Payload  json.RawMessage `json:"payload"`
	Key      *string         `json:"key"`
	Meta     json.RawMessage `json:"meta"`
	Attempt  int             `json:"attempt"`
	Attempts int             `json:"attempts"`
	// CreatedAt and Deadline are instants such as 2030-01-01T00:00:00.000Z.
	CreatedAt string `json:"createdAt"`
	Deadline  string `json:"deadline"`

	mu       sync.Mutex
	cancel   context.CancelFunc
	reason   string
	extend   time.Duration
	progress json.RawMessage
	lines    []map[string]any
	logged   int
}

// Extend moves the deadline to this long from the next heartbeat.
func (j *Job) Extend(by time.Duration) { j.locked(func() { j.extend = by }) }

// Progress is stored with the next heartbeat. Only the last value is sent. It returns an error if the value cannot be stored.
func (j *Job) Progress(value any) error {
	data, err := encoded(value)
	if err != nil {
		return fmt.Errorf("nightshift: the progress cannot be stored: %w", err)
	}
	j.locked(func() { j.progress = data })
	return nil
}

// Logf adds a line that is stored with the job when the attempt ends. Only the last 1000 lines are kept.
func (j *Job) Logf(format string, args ...any) { _ = j.LogAt("info", format, args...) }

// LogAt is Logf with a level: trace, debug, info, warn, error or fatal. It returns an error for any other.
func (j *Job) LogAt(level, format string, args ...any) error {
	switch level {
	case "trace", "debug", "info", "warn", "error", "fatal":
	default:
		return fmt.Errorf("nightshift: level must be trace, debug, info, warn, error or fatal, got %q", level)
	}
	text := beginning(fmt.Sprintf(format, args...), maxLineBytes)
	line := map[string]any{"at": time.Now().UTC().Format(time.RFC3339Nano), "level": level, "message": text}
	j.locked(func() {
		j.lines = append(j.lines, line)
		j.logged += len(text)
		for len(j.lines) > maxBatch || j.logged > maxLogBytes {
			j.logged -= len(j.lines[0]["message"].(string))
			j.lines = j.lines[1:]
		}
	})
	return nil
}

// StopReason says why the context was cancelled: cancelled, lost, timeout or shutdown.
func (j *Job) StopReason() (reason string) {
	j.locked(func() { reason = j.reason })
	return reason
}

func (j *Job) locked(act func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	act()
}

func (j *Job) stop(reason string) {
	j.locked(func() {
		if j.reason == "" {
			j.reason = reason
		}
	})
	j.cancel()
}

func (j *Job) beat() map[string]any {
	beat := map[string]any{"id": j.ID, "lease": j.Lease}
	j.locked(func() {
		beat["deadline"] = j.Deadline
		if j.extend > 0 {
			beat["extendSeconds"] = seconds(j.extend, 1)
		}
		if j.progress != nil {
			beat["progress"] = j.progress
		}
	})
	return beat
}

// sent forgets what a heartbeat has sent, unless the handler has changed it since.
func (j *Job) sent(beat map[string]any, keepsExtension bool) {
	j.locked(func() {
		if data, ok := beat["progress"].(json.RawMessage); ok && bytes.Equal(data, j.progress) {
			j.progress = nil
		}
		if by, ok := beat["extendSeconds"]; ok && !keepsExtension && by == seconds(j.extend, 1) {
			j.extend = 0
		}
	})
}

// Worker claims jobs and runs their handlers.
type Worker struct {
	options Options
	about   map[string]any
	mu      sync.Mutex
	held    map[string]*Job
	every   time.Duration
	ends    chan entry
	// leaving is done when the worker stops, sending when it sends no more results.
	leaving, sending context.Context
	leave, abandon   context.CancelFunc
	// unanswered is whether the last heartbeat got no response.
	unanswered bool
}

// entry is what a request says of a job.
type entry struct {
	job   *Job
	body  map[string]any
	bytes int
}

// batches divides entries into requests.
func batches(all []entry) (divided [][]entry) {
	start, size := 0, 0
	for i, each := range all {
		if i > start && (i-start == maxBatch || size+each.bytes > maxBatchBytes) {
			divided = append(divided, all[start:i])
			start, size = i, 0
		}
		size += each.bytes
	}
	if start < len(all) {
		divided = append(divided, all[start:])
	}
	return divided
}

func bodiesOf(batch []entry) []any {
	bodies := make([]any, 0, len(batch))
	for _, each := range batch {
		bodies = append(bodies, each.body)
	}
	return bodies
}

// New makes a worker.
func New(options Options) (*Worker, error) {
	if len(options.Handlers) == 0 || options.URL == "" || options.Token == "" {
		return nil, errors.New("nightshift: URL, Token and Handlers are required")
	}
	// Requests would fail each time, as if the service did not answer.
	if at, err := urls.Parse(options.URL); err != nil || (at.Scheme != "http" && at.Scheme != "https") || at.Host == "" {
		return nil, fmt.Errorf("nightshift: URL must be an http:// or https:// URL, got %q", options.URL)
	}
	if strings.IndexFunc(options.Token, unicode.IsControl) >= 0 {
		return nil, errors.New("nightshift: Token must not have line breaks or other control characters")
	}
	host, _ := os.Hostname()
	if options.Concurrency <= 0 {
		options.Concurrency = 4
	}
	if options.Timeout <= 0 {
		options.Timeout = 15 * time.Minute
	}
	if options.Wait <= 0 {
		options.Wait = 10 * time.Second
	}
	if options.Grace <= 0 {
		options.Grace = 25 * time.Second
	}
	if options.Name == "" {
		options.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if options.Client == nil {
		options.Client = http.DefaultClient
	}
	if options.Logf == nil {
		options.Logf = log.Printf
	}
	options.URL = strings.TrimRight(options.URL, "/")
	about := map[string]any{
		"id": fmt.Sprintf("%s-%d-%d-%d", host, os.Getpid(), time.Now().UnixNano(), rand.Int63()), "name": options.Name,
		"runtime": strings.Replace(runtime.Version(), "go", "go ", 1), "host": host, "pid": os.Getpid(),
	}
	return &Worker{options: options, about: about, held: map[string]*Job{}, every: 10 * time.Second,
		ends: make(chan entry, options.Concurrency)}, nil
}

func (w *Worker) open() {
	w.leaving, w.leave = context.WithCancel(context.Background())
	w.sending, w.abandon = context.WithCancel(context.Background())
}

// Run runs jobs until the context is cancelled, then lets running jobs finish for the grace period and returns the rest to the
// queue. It returns an error if the service refuses the worker.
func (w *Worker) Run(ctx context.Context) error {
	w.open()
	defer w.abandon()
	drained := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Add(2)
	go func() { defer helpers.Done(); w.beatLoop(drained) }()
	go func() { defer helpers.Done(); w.finishLoop(drained) }()
	// The grace period begins with the stop, and not when the claim that waits has ended.
	stopped := make(chan time.Time, 1)
	go func() {
		select {
		case <-ctx.Done():
		case <-w.leaving.Done():
		}
		stopped <- time.Now()
		w.leave()
	}()
	var running sync.WaitGroup
	err := w.claimLoop(ctx, &running)
	w.leave()
	w.drain(&running, time.Until((<-stopped).Add(w.options.Grace)))
	close(drained)
	helpers.Wait()
	if _, leaveErr := w.post(context.Background(), "heartbeat", map[string]any{"jobs": []any{}, "leave": true}, 5*time.Second); leaveErr != nil && err == nil {
		w.options.Logf("nightshift: could not leave: %v", leaveErr)
	}
	return err
}

func (w *Worker) claimLoop(ctx context.Context, running *sync.WaitGroup) error {
	slots := make(chan struct{}, w.options.Concurrency)
	failures := 0
	for {
		// Wait for one free slot, then claim for all that are free.
		select {
		case <-ctx.Done():
			return nil
		case slots <- struct{}{}:
		}
		room := 1
		for filling := true; filling && room < maxBatch; {
			select {
			case slots <- struct{}{}:
				room++
			default:
				filling = false
			}
		}
		jobs, err := w.claim(room)
		for i := len(jobs); i < room; i++ {
			<-slots
		}
		if err != nil {
			if !isTransient(err) {
				return err
			}
			w.options.Logf("nightshift: could not claim jobs, trying again: %v", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(delay(failures)):
			}
			failures++
			continue
		}
		failures = 0
		for _, job := range jobs {
			job := job
			jobCtx, cancel := context.WithCancel(context.Background())
			job.cancel = cancel
			w.mu.Lock()
			w.held[job.ID+job.Lease] = job
			w.mu.Unlock()
			running.Add(1)
			go func() {
				defer func() { cancel(); <-slots; running.Done() }()
				end := map[string]any{"outcome": "returned"}
				if ctx.Err() == nil {
					end = w.run(jobCtx, job)
				}
				w.conclude(job, end)
			}()
		}
	}
}

func (w *Worker) claim(room int) ([]*Job, error) {
	kinds := make([]string, 0, len(w.options.Handlers))
	for kind := range w.options.Handlers {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	body := map[string]any{"kinds": kinds, "max": room, "waitSeconds": w.options.Wait.Seconds(),
		"timeoutSeconds": w.options.Timeout.Seconds()}
	if len(w.options.Queues) > 0 {
		body["queues"] = w.options.Queues
	}
	data, err := w.post(context.Background(), "claim", body, w.options.Wait+30*time.Second)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Jobs             []*Job
		HeartbeatSeconds float64
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.every = time.Duration(answer.HeartbeatSeconds * float64(time.Second))
	w.mu.Unlock()
	return answer.Jobs, nil
}

func (w *Worker) run(ctx context.Context, job *Job) (end map[string]any) {
	defer func() {
		if thrown := recover(); thrown != nil {
			end = map[string]any{"outcome": "failed", "error": fmt.Sprintf("panic: %v\n%s", thrown, debug.Stack())}
		}
	}()
	result, err := w.options.Handlers[job.Kind](ctx, job)
	var other *outcome
	if errors.As(err, &other) {
		return other.end
	}
	if err != nil {
		return map[string]any{"outcome": "failed", "error": err.Error()}
	}
	data, err := encoded(result)
	if err != nil {
		return map[string]any{"outcome": "dead", "error": "its result cannot be stored: " + err.Error()}
	}
	return map[string]any{"outcome": "done", "result": data}
}

// conclude sends the result, unless the job is no longer the worker's.
func (w *Worker) conclude(job *Job, end map[string]any) {
	w.mu.Lock()
	_, isHeld := w.held[job.ID+job.Lease]
	w.mu.Unlock()
	if !isHeld {
		return
	}
	if reason := job.StopReason(); reason == "lost" || reason == "timeout" {
		w.forget(job)
		return
	}
	whole := map[string]any{"id": job.ID, "lease": job.Lease}
	for name, value := range end {
		whole[name] = value
	}
	size := 0
	if text, ok := whole["error"].(string); ok {
		whole["error"] = beginning(text, maxErrorBytes)
		size += maxErrorBytes
	}
	if data, ok := whole["result"].(json.RawMessage); ok {
		size += len(data)
	}
	job.locked(func() {
		if len(job.lines) > 0 {
			whole["log"] = job.lines
		}
		size += job.logged
	})
	select {
	case w.ends <- entry{job, whole, size}:
	case <-w.sending.Done():
	}
}

func (w *Worker) forget(job *Job) {
	w.mu.Lock()
	delete(w.held, job.ID+job.Lease)
	w.mu.Unlock()
}

// drain waits for running jobs as long as the grace period has left, and returns the others to the queue.
func (w *Worker) drain(running *sync.WaitGroup, left time.Duration) {
	if left < 0 {
		left = 0
	}
	time.AfterFunc(left+lastTries, w.abandon)
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	select {
	case <-done:
		return
	case <-time.After(left):
	}
	w.mu.Lock()
	jobs := make([]*Job, 0, len(w.held))
	for _, job := range w.held {
		jobs = append(jobs, job)
	}
	w.mu.Unlock()
	for _, job := range jobs {
		// In this order: a handler that ends at once must not end its attempt.
		w.conclude(job, map[string]any{"outcome": "returned"})
		w.forget(job)
		job.stop("shutdown")
	}
}

func (w *Worker) beatLoop(drained <-chan struct{}) {
	const idle = 500 * time.Millisecond
	for pause := idle; ; {
		select {
		case <-drained:
			return
		case <-time.After(pause):
		}
		began := time.Now()
		w.mu.Lock()
		every := w.every
		beats := make([]entry, 0, len(w.held))
		for _, job := range w.held {
			body := job.beat()
			data, _ := body["progress"].(json.RawMessage)
			beats = append(beats, entry{job, body, len(data)})
		}
		w.mu.Unlock()
		for _, batch := range batches(beats) {
			w.beat(batch, every)
		}
		pause = idle
		if len(beats) > 0 {
			// One that got no response has taken the time until the next one.
			pause = every - time.Since(began)
		}
	}
}

func (w *Worker) beat(beats []entry, every time.Duration) {
	held := map[string]*Job{}
	for _, each := range beats {
		held[each.job.ID+each.job.Lease] = each.job
	}
	// A connection may be dead without an error: several heartbeats must fit into QUEUE_STALE_AFTER.
	data, err := w.post(context.Background(), "heartbeat", map[string]any{"jobs": bodiesOf(beats)}, every)
	var refused *Error
	w.unanswered = err != nil && !errors.As(err, &refused)
	if w.unanswered {
		w.options.Client.CloseIdleConnections()
	}
	var answer struct {
		Jobs []struct {
			ID, Lease, Deadline string
			Error               *struct{ Message string }
		}
		Stop []struct{ ID, Lease, Reason string }
	}
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	if err != nil {
		w.options.Logf("nightshift: could not send a heartbeat: %v", err)
		if !isTransient(err) {
			// It may be a progress that cannot be stored: the next heartbeat goes without.
			for _, each := range beats {
				each.job.sent(each.body, true)
			}
		}
		return
	}
	for _, each := range beats {
		each.job.sent(each.body, false)
	}
	for _, each := range answer.Jobs {
		if job := held[each.ID+each.Lease]; job != nil {
			job.locked(func() { job.Deadline = each.Deadline })
		}
		if each.Error != nil {
			w.options.Logf("nightshift: job %s: %s", each.ID, each.Error.Message)
		}
	}
	for _, each := range answer.Stop {
		if job := held[each.ID+each.Lease]; job != nil {
			job.stop(each.Reason)
		}
	}
}

// finishLoop sends results in batches. A request that got no response is repeated, which the service recognizes.
func (w *Worker) finishLoop(drained <-chan struct{}) {
	for {
		var first entry
		select {
		case first = <-w.ends:
		case <-drained:
			select {
			case first = <-w.ends:
			default:
				return
			}
		}
		ends := []entry{first}
		for more := true; more; {
			select {
			case next := <-w.ends:
				ends = append(ends, next)
			default:
				more = false
			}
		}
		for _, batch := range batches(ends) {
			w.finish(batch)
		}
	}
}

// finish tries until the results are stored or refused, or the time after a stop is over.
func (w *Worker) finish(batch []entry) {
	for failures := 0; ; failures++ {
		data, err := w.post(w.sending, "finish", map[string]any{"jobs": bodiesOf(batch)}, time.Minute)
		if err == nil {
			w.warnOfLost(data)
			break
		}
		if !isTransient(err) {
			w.refused(batch, err)
			return
		}
		if w.sending.Err() != nil {
			w.options.Logf("nightshift: the results of %d jobs were not stored: %v", len(batch), err)
			break
		}
		w.options.Logf("nightshift: could not send the results of %d jobs, trying again: %v", len(batch), err)
		select {
		case <-time.After(delay(failures)):
		case <-w.leaving.Done():
			// The time is short.
			select {
			case <-time.After(delay(0)):
			case <-w.sending.Done():
			}
		}
	}
	for _, each := range batch {
		w.forget(each.job)
	}
}

// refused sends the results again in smaller requests: one that the service cannot read must not lose the others.
func (w *Worker) refused(batch []entry, err error) {
	var answer *Error
	isUnreadable := errors.As(err, &answer) && (answer.Status == 400 || answer.Status == 413)
	if middle := len(batch) / 2; isUnreadable && middle > 0 {
		w.finish(batch[:middle])
		w.finish(batch[middle:])
		return
	}
	w.options.Logf("nightshift: the service refused the results of %d jobs: %v", len(batch), err)
	for _, each := range batch {
		text, _ := each.body["error"].(string)
		if isUnreadable && !strings.HasPrefix(text, refusedText) {
			failed := map[string]any{"id": each.job.ID, "lease": each.job.Lease, "outcome": "failed",
				"error": refusedText + err.Error()}
			w.finish([]entry{{each.job, failed, 0}})
		}
		w.forget(each.job)
	}
}

func (w *Worker) warnOfLost(data []byte) {
	var answer struct {
		Jobs []struct {
			ID    string
			Error *struct{ Message string }
		}
	}
	if json.Unmarshal(data, &answer) != nil {
		return
	}
	for _, each := range answer.Jobs {
		if each.Error != nil {
			w.options.Logf("nightshift: job %s: %s", each.ID, each.Error.Message)
		}
	}
}

func (w *Worker) post(parent context.Context, call string, body map[string]any, timeout time.Duration) ([]byte, error) {
	body["worker"] = w.about
	data, err := marshalled(body)
	if err != nil {
		return nil, &Error{Status: 400, Tag: "BadRequest", Message: err.Error()}
	}
	ctx, cancel := context.WithTimeout(parent, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", w.options.URL+"/api/v1/work/"+call, bytes.NewReader(data))
	if err != nil {
		return nil, &Error{Status: 400, Tag: "BadRequest", Message: err.Error()}
	}
	// With HTTP/2, requests go over the same connection even if it does not answer, until one asks for its end.
	request.Close = call == "heartbeat" && w.unanswered
	request.Header.Set("authorization", "Bearer "+w.options.Token)
	request.Header.Set("content-type", "application/json")
	response, err := w.options.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == 200 {
		var answer struct{ Jobs json.RawMessage }
		if json.Unmarshal(text, &answer) != nil || answer.Jobs == nil {
			return nil, errors.New("the response is not that of Nightshift; check the URL of the service")
		}
		return text, nil
	}
	var answer struct{ Error struct{ Tag, Message string } }
	if json.Unmarshal(text, &answer) != nil || answer.Error.Tag == "" {
		answer.Error.Tag, answer.Error.Message = "Error", string(text)
	}
	return nil, &Error{Status: response.StatusCode, Tag: answer.Error.Tag, Message: answer.Error.Message}
}

// marshalled returns a value as JSON, in which <, > and & are not six bytes each.
func marshalled(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buffer.Bytes(), "\n"), nil
}

var (
	// sound matches escapes of what can be stored, as far as they look like one of the others.
	sound = regexp.MustCompile(`\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]`)
	// unstorable matches escapes of NUL and of surrogates.
	unstorable = regexp.MustCompile(`\\u(0000|[dD][89a-fA-F])`)
	// long matches numbers that a float may not hold.
	long = regexp.MustCompile(`\d{16}`)
)

// encoded returns a value as JSON. It fails if the service cannot store the value.
func encoded(value any) (json.RawMessage, error) {
	data, err := marshalled(value)
	if err != nil {
		return nil, err
	}
	if len(data) > maxValueBytes {
		return nil, fmt.Errorf("it must have at most %d bytes as JSON, got %d", maxValueBytes, len(data))
	}
	if unstorable.Match(sound.ReplaceAll(data, nil)) {
		return nil, errors.New("it must not contain NUL characters or unpaired surrogates")
	}
	tokens := json.NewDecoder(bytes.NewReader(data))
	tokens.UseNumber()
	for mayLose := long.Match(data); mayLose; {
		token, err := tokens.Token()
		if err != nil {
			break
		}
		if number, ok := token.(json.Number); ok && isLost(string(number)) {
			return nil, fmt.Errorf("it contains %.40s, which a 64-bit float cannot hold: send it as a string", number)
		}
	}
	return data, nil
}

// isLost returns whether a whole number would arrive as another one.
func isLost(text string) bool {
	exact, isWhole := new(big.Int).SetString(text, 10)
	if !isWhole {
		return false
	}
	nearest, err := strconv.ParseFloat(text, 64)
	shortest := strconv.FormatFloat(nearest, 'f', -1, 64)
	return err != nil || (new(big.Float).SetInt(exact).Cmp(big.NewFloat(nearest)) != 0 && shortest != text)
}

// beginning cuts a text without splitting a character.
func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// seconds is a delay within the bounds of the service.
func seconds(by time.Duration, least float64) float64 {
	return math.Min(math.Max(by.Seconds(), least), maxSeconds)
}

func isTransient(err error) bool {
	var refused *Error
	return !errors.As(err, &refused) || refused.Status == 408 || refused.Status == 429 || refused.Status >= 500
}

func delay(failures int) time.Duration {
	if failures >= len(backoff) {
		failures = len(backoff) - 1
	}
	return time.Duration(backoff[failures] * (0.5 + rand.Float64()/2) * float64(time.Second))
}
