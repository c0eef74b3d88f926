module github.com/OWNER/nightshift/clients/go

go 1.19
