//go:build !v1

// What differs in gocql v2: lz4, vectors, warnings of batches.
package main

import (
	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
)

const driver = "gocql v2"

func compressor(name string) gocql.Compressor {
	switch name {
	case "lz4":
		return lz4.LZ4Compressor{}
	case "snappy":
		return snappy.SnappyCompressor{}
	}
	return nil
}

func vectors(s *gocql.Session) {
	must(s.Query("INSERT INTO vectors (id, v) VALUES (?, ?)", 1, []float32{1.5, -2.25, 0}).Exec())
	say("vector", facts{"rows": rows(s.Query("SELECT * FROM vectors").Iter())})
}

func batchWarnings(_ *gocql.Session, batch *gocql.Batch) []string {
	iter := batch.Iter()
	warnings := iter.Warnings()
	must(iter.Close())
	return warnings
}
