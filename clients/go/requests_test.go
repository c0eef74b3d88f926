package nightshift

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// These tests need no service.

// stub answers the requests of a client without a service.
type stub func(call string, request *http.Request) (status int, answer string, err error)

func (s stub) RoundTrip(request *http.Request) (*http.Response, error) {
	status, answer, err := s(request.URL.Path[len("/api/v1/work/"):], request)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Request: request,
		Body: io.NopCloser(strings.NewReader(answer))}, nil
}

const claimed = `{"jobs": [{"id": "id", "lease": "lease", "kind": "kind"}], "heartbeatSeconds": 0.3}`

// stubbed runs a worker whose first claim gets a job. The returned function stops it, and fails if that takes long.
func stubbed(t *testing.T, handler Handler, answer stub) func() {
	t.Helper()
	isClaimed := false
	client := &http.Client{Transport: stub(func(call string, request *http.Request) (int, string, error) {
		if call == "claim" && !isClaimed {
			isClaimed = true
			return 200, claimed, nil
		}
		if call == "claim" {
			time.Sleep(10 * time.Millisecond)
			return 200, `{"jobs": [], "heartbeatSeconds": 0.3}`, nil
		}
		return answer(call, request)
	})}
	worker, err := New(Options{URL: "http://service", Token: "token", Grace: 50 * time.Millisecond, Client: client,
		Handlers: map[string]Handler{"kind": handler}, Logf: func(string, ...any) {}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		await(t, done)
	}
}

func await[A any](t *testing.T, from <-chan A) (value A) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing happened in time")
	}
	return value
}

func hurry(t *testing.T) {
	steps, last := backoff, lastTries
	t.Cleanup(func() { backoff, lastTries = steps, last })
	backoff, lastTries = []float64{0.001}, 50*time.Millisecond
}

func TestSendsResultsAgainUntilTheServiceCanStoreThem(t *testing.T) {
	hurry(t)
	tries, stored := 0, make(chan string, 1)
	handler := func(context.Context, *Job) (any, error) { return "result", nil }
	stop := stubbed(t, handler, func(call string, request *http.Request) (int, string, error) {
		if tries++; call == "finish" && tries < 40 {
			return 520, "", nil
		}
		if call == "finish" {
			body, _ := io.ReadAll(request.Body)
			stored <- string(body)
		}
		return 200, `{"jobs": []}`, nil
	})
	if body := await(t, stored); !strings.Contains(body, `"result":"result"`) {
		t.Errorf("got %s", body)
	}
	stop()
}

func TestEndsSoonAfterTheGracePeriodIfTheServiceDoesNotAnswer(t *testing.T) {
	hurry(t)
	asked := make(chan bool, 100)
	handler := func(context.Context, *Job) (any, error) { return "result", nil }
	stop := stubbed(t, handler, func(call string, request *http.Request) (int, string, error) {
		if call == "finish" {
			asked <- true
			<-request.Context().Done()
			return 0, "", request.Context().Err()
		}
		return 200, `{"jobs": []}`, nil
	})
	await(t, asked)
	stop()
}

func TestSendsHeartbeatsOverANewConnectionIfOneIsDead(t *testing.T) {
	for _, isHTTP2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP2=%v", isHTTP2), func(t *testing.T) {
			var mu sync.Mutex
			dead, isClaimed := "", false
			over, beaten := make(chan struct{}), make(chan bool, 1000)
			service := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
				body, _ := io.ReadAll(in.Body)
				mu.Lock()
				first := !isClaimed
				isClaimed = true
				isBeat := strings.HasSuffix(in.URL.Path, "heartbeat") && strings.Contains(string(body), "lease")
				if isBeat && dead == "" {
					dead = in.RemoteAddr
				}
				isDead := in.RemoteAddr == dead
				mu.Unlock()
				switch {
				case first:
					_, _ = io.WriteString(out, claimed)
					return
				case isDead || strings.HasSuffix(in.URL.Path, "claim"):
					select {
					case <-over:
					case <-in.Context().Done():
					}
				case isBeat:
					beaten <- true
				}
				_, _ = io.WriteString(out, `{"jobs": []}`)
			}))
			service.EnableHTTP2 = isHTTP2
			service.StartTLS()
			defer service.Close()
			worker, err := New(Options{URL: service.URL, Token: "token", Grace: time.Millisecond, Client: service.Client(),
				Handlers: map[string]Handler{"kind": func(ctx context.Context, _ *Job) (any, error) {
					<-ctx.Done()
					return nil, nil
				}}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- worker.Run(ctx) }()
			await(t, beaten)
			cancel()
			close(over)
			await(t, done)
		})
	}
}

func TestRefusesOptionsThatCannotWork(t *testing.T) {
	handlers := map[string]Handler{"kind": nil}
	for _, options := range []Options{
		{URL: "localhost:8787", Token: "token", Handlers: handlers},
		{URL: "127.0.0.1:8787", Token: "token", Handlers: handlers},
		{URL: "https://", Token: "token", Handlers: handlers},
		{URL: "http://service", Token: "token\n", Handlers: handlers},
		{URL: "http://service", Token: "token"},
	} {
		if _, err := New(options); err == nil {
			t.Errorf("no error for %q and %q", options.URL, options.Token)
		}
	}
}

func TestRefusesNumbersThatAFloatCannotHold(t *testing.T) {
	for _, value := range []any{int64(1)<<53 + 1, []uint64{math.MaxUint64}, json.RawMessage("1" + strings.Repeat("0", 400))} {
		if _, err := encoded(value); err == nil {
			t.Errorf("no error for %v", value)
		}
	}
	for _, value := range []any{int64(1) << 60, json.RawMessage("100000000000000000000000"), 1e300, 0.1, "9007199254740993"} {
		if _, err := encoded([]any{value, "9007199254740993"}); err != nil {
			t.Error(err)
		}
	}
}

func TestDividesRequests(t *testing.T) {
	var all []entry
	for i := 0; i < 2*maxBatch; i++ {
		all = append(all, entry{bytes: maxValueBytes})
	}
	count := 0
	for _, batch := range batches(all) {
		count += len(batch)
		if len(batch)*maxValueBytes > maxBatchBytes {
			t.Errorf("%d jobs in one request", len(batch))
		}
	}
	if count != len(all) {
		t.Errorf("got %d, want %d", count, len(all))
	}
	for i := range all {
		all[i].bytes = 0
	}
	if divided := batches(all); len(divided) != 2 {
		t.Errorf("got %d requests, want 2", len(divided))
	}
}

func TestReturnsAJobBeforeItStopsTheHandler(t *testing.T) {
	worker, err := New(Options{URL: "http://service", Token: "token", Grace: time.Millisecond, Handlers: map[string]Handler{"kind": nil}})
	if err != nil {
		t.Fatal(err)
	}
	worker.open()
	job := &Job{ID: "id", Lease: "lease"}
	// A handler that ends as soon as it is stopped.
	job.cancel = func() { worker.conclude(job, map[string]any{"outcome": "cancelled"}) }
	worker.held["idlease"] = job
	var running sync.WaitGroup
	running.Add(1)
	worker.drain(&running, time.Millisecond)
	if first := await(t, worker.ends); first.body["outcome"] != "returned" {
		t.Errorf("got %v", first.body)
	}
}
