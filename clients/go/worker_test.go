package nightshift

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// The tests need a running service: `npm run test:clients` starts one and sets these variables.
var (
	url   = os.Getenv("NIGHTSHIFT_URL")
	admin = os.Getenv("NIGHTSHIFT_ADMIN_TOKEN")
	token = os.Getenv("NIGHTSHIFT_WORKER_TOKEN")
)

type stored struct {
	ID        string
	State     string
	Attempt   int
	LastError string
	CreatedAt string
	Result    json.RawMessage
	History   []struct{ Outcome string }
}

func ask(t *testing.T, method, path string, body any) []byte {
	t.Helper()
	data, _ := json.Marshal(body)
	request, _ := http.NewRequest(method, url+"/api/v1"+path, bytes.NewReader(data))
	request.Header.Set("authorization", "Bearer "+admin)
	request.Header.Set("content-type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode >= 300 {
		t.Fatalf("%s %s returned %d: %s", method, path, response.StatusCode, text)
	}
	return text
}

func enqueue(t *testing.T, queue, kind string, payload any, attempts int) string {
	t.Helper()
	var made stored
	body := map[string]any{"queue": queue, "kind": kind, "payload": payload, "attempts": attempts, "force": true}
	_ = json.Unmarshal(ask(t, "POST", "/jobs", body), &made)
	return made.ID
}

func eventually(t *testing.T, id string, check func(stored) bool) stored {
	t.Helper()
	var found stored
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		found = stored{}
		_ = json.Unmarshal(ask(t, "GET", "/jobs/"+id, nil), &found)
		if check(found) {
			return found
		}
	}
	t.Fatalf("nothing happened in time: %+v", found)
	return found
}

func queueOf(t *testing.T) string {
	return fmt.Sprintf("go-%s-%d", strings.ToLower(t.Name()), time.Now().UnixNano())
}

// start runs a worker until the returned function is called.
func start(t *testing.T, options Options) func() {
	t.Helper()
	options.URL, options.Token, options.Wait = url, token, time.Second
	worker, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func TestRunsJobs(t *testing.T) {
	queue := queueOf(t)
	start(t, Options{Queues: []string{queue}, Handlers: map[string]Handler{
		"go-shout": func(_ context.Context, job *Job) (any, error) {
			var payload struct{ Text string }
			if err := json.Unmarshal(job.Payload, &payload); err != nil {
				return nil, Dead(err)
			}
			job.Logf("attempt %d", job.Attempt)
			if err := job.LogAt("warn", "%s since %s", payload.Text, job.CreatedAt); err != nil {
				return nil, err
			}
			if job.LogAt("loud", "text") == nil {
				return nil, errors.New("an unknown level was accepted")
			}
			return map[string]any{"shouted": strings.ToUpper(payload.Text)}, nil
		},
	}})
	for n := 0; n < 30; n++ {
		id := enqueue(t, queue, "go-shout", map[string]any{"text": fmt.Sprintf("hi %d", n)}, 5)
		done := eventually(t, id, func(job stored) bool { return job.State == "done" })
		if want := fmt.Sprintf(`"HI %d"`, n); !strings.Contains(string(done.Result), want) {
			t.Errorf("got %s, want %s", done.Result, want)
		}
		if n > 0 {
			continue
		}
		logs := string(ask(t, "GET", "/jobs/"+id+"/logs", nil))
		for _, want := range []string{"attempt 1", `"warn"`, "hi 0 since " + done.CreatedAt} {
			if !strings.Contains(logs, want) {
				t.Errorf("the log has no %s: %s", want, logs)
			}
		}
	}
}

func TestEndsAttempts(t *testing.T) {
	queue := queueOf(t)
	start(t, Options{Queues: []string{queue}, Handlers: map[string]Handler{
		"go-fail": func(_ context.Context, job *Job) (any, error) {
			switch string(job.Payload) {
			case `"dead"`:
				return nil, Dead(errors.New("never again"))
			case `"snooze"`:
				return nil, Snooze(time.Hour)
			case `"panic"`:
				panic("oh no")
			}
			return nil, Retry(errors.New("later"), time.Hour)
		},
	}})
	dead := enqueue(t, queue, "go-fail", "dead", 5)
	snooze := enqueue(t, queue, "go-fail", "snooze", 5)
	bug := enqueue(t, queue, "go-fail", "panic", 1)
	retry := enqueue(t, queue, "go-fail", "retry", 5)
	eventually(t, dead, func(job stored) bool { return job.State == "dead" && strings.Contains(job.LastError, "never again") })
	eventually(t, snooze, func(job stored) bool { return len(job.History) == 1 && job.History[0].Outcome == "snoozed" })
	eventually(t, bug, func(job stored) bool { return job.State == "dead" && strings.Contains(job.LastError, "oh no") })
	eventually(t, retry, func(job stored) bool { return job.LastError == "later" })
}

func TestKeepsItsJobsAfterABadProgress(t *testing.T) {
	queue := queueOf(t)
	begun := make(chan struct{})
	start(t, Options{Queues: []string{queue}, Handlers: map[string]Handler{
		"go-stubborn": func(ctx context.Context, job *Job) (any, error) {
			for _, value := range []any{math.NaN(), make(chan int), strings.Repeat("x", 70_000), "a\x00", map[string]int{"\\\x00": 1},
				json.RawMessage(`"\ud800"`), json.RawMessage(`"\udc00\ud800"`), json.RawMessage(`"\ud800\ud800\udc00"`)} {
				if job.Progress(value) == nil {
					t.Errorf("no error for %.60v", value)
				}
			}
			for _, value := range []any{`\u0000 \ud800`, json.RawMessage(`"\ud83d\ude00\\ud800"`)} {
				if err := job.Progress(value); err != nil {
					t.Error(err)
				}
			}
			// The service refuses it.
			job.locked(func() { job.progress = json.RawMessage(`"\u0000"`) })
			close(begun)
			<-ctx.Done()
			return nil, Cancelled()
		},
	}})
	id := enqueue(t, queue, "go-stubborn", nil, 5)
	<-begun
	ask(t, "POST", "/jobs/"+id+"/cancel", nil)
	eventually(t, id, func(job stored) bool { return job.State == "cancelled" })
}

func TestFailsOnlyTheAttemptWhoseEndIsNotValid(t *testing.T) {
	queue := queueOf(t)
	start(t, Options{Queues: []string{queue}, Concurrency: 8, Handlers: map[string]Handler{
		"go-odd": func(_ context.Context, job *Job) (any, error) {
			switch string(job.Payload) {
			case `"scope"`:
				return nil, Throttled(time.Second, "world")
			case `"large"`:
				return strings.Repeat("x", 40_000_000), nil
			}
			return "fine", nil
		},
	}})
	scope := enqueue(t, queue, "go-odd", "scope", 1)
	large := enqueue(t, queue, "go-odd", "large", 1)
	fine := enqueue(t, queue, "go-odd", "fine", 1)
	eventually(t, fine, func(job stored) bool { return job.State == "done" })
	eventually(t, scope, func(job stored) bool {
		return job.State == "dead" && strings.Contains(job.LastError, "refused the result")
	})
	eventually(t, large, func(job stored) bool {
		return job.State == "dead" && strings.Contains(job.LastError, "at most 65536 bytes")
	})
}

func TestSendsAgainWhatAHeartbeatCouldNot(t *testing.T) {
	job := &Job{ID: "id", Lease: "lease"}
	job.Extend(time.Minute)
	_ = job.Progress(1)
	first := job.beat()
	if again := job.beat(); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("got %v, want %v", again, first)
	}
	_ = job.Progress(2)
	job.sent(first, false)
	if left := job.beat(); left["extendSeconds"] != nil || string(left["progress"].(json.RawMessage)) != "2" {
		t.Errorf("got %v", left)
	}
}

func TestStopsCancelledJobs(t *testing.T) {
	queue := queueOf(t)
	begun := make(chan struct{})
	start(t, Options{Queues: []string{queue}, Handlers: map[string]Handler{
		"go-wait": func(ctx context.Context, job *Job) (any, error) {
			close(begun)
			<-ctx.Done()
			return nil, Cancelled()
		},
	}})
	id := enqueue(t, queue, "go-wait", nil, 5)
	<-begun
	ask(t, "POST", "/jobs/"+id+"/cancel", nil)
	eventually(t, id, func(job stored) bool { return job.State == "cancelled" })
}

func TestReturnsJobsOnStop(t *testing.T) {
	queue := queueOf(t)
	begun := make(chan struct{})
	stop := start(t, Options{Queues: []string{queue}, Grace: 200 * time.Millisecond, Handlers: map[string]Handler{
		"go-slow": func(ctx context.Context, job *Job) (any, error) {
			close(begun)
			<-ctx.Done()
			return "too late", nil
		},
	}})
	id := enqueue(t, queue, "go-slow", nil, 5)
	<-begun
	stop()
	eventually(t, id, func(job stored) bool {
		return job.Attempt == 0 && len(job.History) == 1 && job.History[0].Outcome == "interrupted by shutdown"
	})
}

func TestRefused(t *testing.T) {
	worker, err := New(Options{URL: url, Token: os.Getenv("NIGHTSHIFT_NARROW_TOKEN"), Queues: []string{queueOf(t)},
		Handlers: map[string]Handler{"go-none": nil}})
	if err != nil {
		t.Fatal(err)
	}
	var refused *Error
	if err := worker.Run(context.Background()); !errors.As(err, &refused) || refused.Status != 403 {
		t.Errorf("got %v, want a 403", err)
	}
}
