module example.org/enqueue

go 1.22
