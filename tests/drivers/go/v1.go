//go:build v1

// What differs in gocql v1: snappy only, no vectors, no warnings of batches.
package main

import "github.com/gocql/gocql"

const driver = "gocql v1"

func compressor(name string) gocql.Compressor {
	if name == "snappy" {
		return gocql.SnappyCompressor{}
	}
	return nil
}

func vectors(*gocql.Session) {}

func batchWarnings(s *gocql.Session, batch *gocql.Batch) []string {
	must(s.ExecuteBatch(batch))
	return nil
}
