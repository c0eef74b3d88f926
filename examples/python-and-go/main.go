// Enqueues over HTTP: go run . A-17 ada@example.org
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

var client = &http.Client{Timeout: 10 * time.Second}

// enqueue stores a job and returns its id. The same key within 24 hours stores it once, so a retry is safe.
func enqueue(kind string, payload any, idempotencyKey string) (string, error) {
	body, err := json.Marshal(map[string]any{"kind": kind, "payload": payload})
	if err != nil {
		return "", err
	}
	request, err := http.NewRequest("POST", os.Getenv("NIGHTSHIFT_URL")+"/api/v1/jobs", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("NIGHTSHIFT_TOKEN"))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", idempotencyKey)
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		// 4xx: the body names the field at fault. 429 and 5xx: try again later.
		problem, _ := io.ReadAll(response.Body)
		return "", fmt.Errorf("enqueue failed with %d: %s", response.StatusCode, problem)
	}
	var stored struct{ ID string }
	return stored.ID, json.NewDecoder(response.Body).Decode(&stored)
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run . ORDER EMAIL")
		os.Exit(2)
	}
	order, email := os.Args[1], os.Args[2]
	id, err := enqueue("send_receipt", map[string]string{"orderId": order, "email": email}, "receipt:"+order)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(id)
}
