// The driver scenario with gocql: one JSON line a step (see ../README.md).
// The same file is built for gocql v2 and, with the import exchanged by the runner, for v1.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"math/big"
	"net"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"gopkg.in/inf.v0"
)

type facts = map[string]any

var (
	contacts    = strings.Split(os.Getenv("DRIVER_CONTACTS"), ",")
	dc          = os.Getenv("DRIVER_DC")
	keyspace    = os.Getenv("DRIVER_KEYSPACE")
	compression = os.Getenv("DRIVER_COMPRESSION")
	concurrency = 5000
	schema      []string
	wideTable   = os.Getenv("DRIVER_WIDE")
	seen        sync.Map // addresses of all hosts that the driver asked its filter about
)

func main() {
	log.SetOutput(os.Stderr)
	if n, err := strconv.Atoi(os.Getenv("DRIVER_CONCURRENT")); err == nil {
		concurrency = n
	}
	text, err := os.ReadFile(os.Getenv("DRIVER_SCHEMA"))
	must(err)
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "CREATE") && (withVectors() || !strings.Contains(line, "vector<")) {
			schema = append(schema, line)
		}
	}
	if wideTable != "" {
		s := open(1, "", false)
		defer s.Close()
		wide(s)
		say("end", facts{})
		return
	}
	first := open(1, "", false)
	defer first.Close()
	connect(first)
	defer func() { must(first.Query("DROP KEYSPACE IF EXISTS " + keyspace).Exec()); say("end", facts{}) }()
	must(first.Query("CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'NetworkTopologyStrategy', '" + dc + "': 1}").Exec())
	s := open(2, keyspace, false)
	defer s.Close()
	createSchema(s)
	for _, step := range []func(*gocql.Session){hosts, prepare, paging, batches, types, extras, failures, lwt, events, spread} {
		step(s)
	}
	concurrent()
}

// must ends the program: panics unwind through the deferred DROP KEYSPACE.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func withVectors() bool { return os.Getenv("DRIVER_VECTOR") != "0" && driver == "gocql v2" }

func say(step string, f facts) {
	f["step"] = step
	line, err := json.Marshal(f)
	must(err)
	fmt.Println(string(line))
}

// open makes a session with so many connections a node, or one connection to one node only.
func open(connections int, keyspace string, oneNode bool) *gocql.Session {
	host, port, err := net.SplitHostPort(contacts[0])
	must(err)
	cfg := gocql.NewCluster(contacts...)
	cfg.Port, err = strconv.Atoi(port)
	must(err)
	cfg.Keyspace = keyspace
	cfg.NumConns = connections
	cfg.Consistency = gocql.LocalOne
	cfg.Timeout = 60 * time.Second
	cfg.ConnectTimeout = 15 * time.Second
	cfg.WriteTimeout = 60 * time.Second
	cfg.MaxWaitSchemaAgreement = 30 * time.Second
	cfg.Compressor = compressor(compression)
	cfg.ProtoVersion, _ = strconv.Atoi(os.Getenv("DRIVER_PROTOCOL"))
	cfg.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy(dc))
	cfg.HostFilter = gocql.HostFilterFunc(func(h *gocql.HostInfo) bool {
		address := h.ConnectAddress().String()
		seen.Store(address, true)
		return !oneNode || address == host
	})
	s, err := cfg.CreateSession()
	must(err)
	return s
}

// rows prints every value as Go shows it; a map has no order, so the columns are sorted by JSON.
func rows(iter *gocql.Iter) []map[string]string {
	out := []map[string]string{}
	for row := map[string]any{}; iter.MapScan(row); row = map[string]any{} {
		shown := map[string]string{}
		for name, value := range row {
			shown[name] = fmt.Sprint(value)
		}
		out = append(out, shown)
	}
	must(iter.Close())
	return out
}

func columns(s *gocql.Session, table string) []string {
	iter := s.Query("SELECT * FROM " + table).Iter()
	names := []string{}
	for _, c := range iter.Columns() {
		names = append(names, c.Name)
	}
	must(iter.Close())
	sort.Strings(names)
	return names
}

func connect(s *gocql.Session) {
	say("connect", facts{"driver": driver, "compression": compression,
		"local": rows(s.Query("SELECT cluster_name, partitioner, release_version FROM system.local").Iter())})
}

func hosts(s *gocql.Session) {
	say("system", facts{"local": columns(s, "system.local"), "peers": columns(s, "system.peers"), "peers_v2": columns(s, "system.peers_v2")})
	addresses := []string{}
	seen.Range(func(address, _ any) bool { addresses = append(addresses, address.(string)); return true })
	sort.Strings(addresses)
	peers := len(rows(s.Query("SELECT peer FROM system.peers").Iter()))
	say("hosts", facts{"topology": true, "hosts": len(addresses), "peers": peers, "addresses": addresses})
}

func createSchema(s *gocql.Session) {
	used, agreed := [][]any{}, []bool{}
	for _, statement := range schema {
		must(s.Query(statement).Exec())
		if strings.HasPrefix(statement, "CREATE TABLE") {
			table := strings.Fields(statement)[2]
			used = append(used, []any{table, len(rows(s.Query("SELECT * FROM " + table).Iter()))})
		}
		agreed = append(agreed, s.AwaitSchemaAgreement(context.Background()) == nil)
	}
	say("schema", facts{"agreed": agreed, "used_at_once": used})
}

// prepare relies on two connections a node: the driver prepares on one and executes on both.
func prepare(s *gocql.Session) {
	found := []map[string]string{}
	for k := range 60 {
		must(s.Query("INSERT INTO pairs (k, v) VALUES (?, ?)", k, fmt.Sprint("value ", k)).Exec())
	}
	for k := range 60 {
		found = append(found, rows(s.Query("SELECT k, v FROM pairs WHERE k = ?", k).Iter())...)
	}
	say("prepare", facts{"rows": found})
	must(s.Query("INSERT INTO pairs (k, v) VALUES (:key, :value)", gocql.NamedValue("key", 200), gocql.NamedValue("value", "by name")).Exec())
	say("named", facts{"rows": rows(s.Query("SELECT k, v FROM pairs WHERE k = 200").Iter())})
}

func paging(s *gocql.Session) {
	for pk := 1; pk <= 2; pk++ {
		for ck := range 10 {
			must(s.Query("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)", pk, ck, fmt.Sprintf("%d/%d %s", pk, ck, strings.Repeat("x", 100))).Exec())
		}
	}
	for _, size := range []int{1, 3, 7, 50} {
		pages, all := []int{}, []map[string]string{}
		for state := []byte(nil); ; {
			iter := s.Query("SELECT pk, ck, v FROM pages WHERE pk = ?", 1).PageSize(size).PageState(state).Iter()
			pages = append(pages, iter.NumRows())
			state = iter.PageState()
			all = append(all, rows(iter)...)
			if len(state) == 0 {
				break
			}
		}
		scanned := rows(s.Query("SELECT pk, ck FROM pages").PageSize(size).Iter())
		say("paging", facts{"size": size, "pages": pages, "rows": all, "scanned": scanned})
	}
}

// batches mixes prepared statements with simple ones (those without values).
func batches(s *gocql.Session) {
	for kind, pk := range map[gocql.BatchType]int{gocql.LoggedBatch: 100, gocql.UnloggedBatch: 101} {
		batch := s.NewBatch(kind)
		batch.Query("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)", pk, 1, "prepared")
		batch.Query(fmt.Sprintf("INSERT INTO pages (pk, ck, v) VALUES (%d, 2, 'simple')", pk))
		batch.Query("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)", pk, 3, nil)
		must(s.ExecuteBatch(batch))
	}
	for _, pk := range []int{100, 101} {
		say("batch", facts{"pk": pk, "rows": rows(s.Query("SELECT * FROM pages WHERE pk = ?", pk).Iter())})
	}
	batch := s.NewBatch(gocql.CounterBatch)
	batch.Query("UPDATE counts SET n = n + ? WHERE k = ?", int64(5), "a")
	batch.Query("UPDATE counts SET n = n - 2 WHERE k = 'b'")
	must(s.ExecuteBatch(batch))
	say("batch", facts{"kind": "counter", "rows": rows(s.Query("SELECT * FROM counts").Iter())})
}

func id(text string) gocql.UUID {
	uuid, err := gocql.ParseUUID(text)
	must(err)
	return uuid
}

// kinds are three rows of every type: ordinary values, nulls, and empty or extreme values (gocql binds a tuple's parts one by one).
func kinds() [][]any {
	big80 := new(big.Int).Lsh(big.NewInt(1), 80)
	low := new(big.Int).Sub(new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), 127)), big.NewInt(1))
	ordinary := []any{0, "ascii", int64(1) << 40, []byte{0, 255}, true, time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), inf.NewDec(123456789, 4), 2.5,
		gocql.Duration{Months: 14, Days: 3, Nanoseconds: 5_000_000_000}, float32(1.5), net.ParseIP("192.168.1.9"), 42, int16(7), "grüße ✓",
		time.Hour + 1, time.Date(2024, 2, 29, 12, 30, 15, 123e6, time.UTC), id("2b3bfe00-d6f5-11ee-8000-0123456789ab"), int8(5),
		id("6f1c2d3e-4b5a-4978-8695-a4b3c2d1e0ff"), big80, []int{3, 1, 2}, []string{"a", "b"}, map[string]int{"one": 1, "two": 2},
		map[string][]int{"x": {1, 2}, "y": {}}, 1, "two", false, map[string]any{"street": "Main St", "zip": 12345, "tags": []string{"s", "t"}},
		map[string]any{"street": "Side St"}}
	nulls := make([]any, len(ordinary))
	nulls[0] = 1
	nulls[len(nulls)-2], nulls[len(nulls)-1] = gocql.UnsetValue, gocql.UnsetValue // gocql has no null for user types
	extreme := []any{2, "", int64(math.MinInt64), []byte{}, false, time.Date(1583, 1, 1, 0, 0, 0, 0, time.UTC), inf.NewDec(-1, 20), -1e300,
		gocql.Duration{Months: -1, Days: -2, Nanoseconds: -3}, float32(-0.5), net.ParseIP("2001:db8::1"), math.MinInt32, int16(math.MinInt16), "",
		time.Duration(0), time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC), id("00000000-0000-1000-8080-808080808080"), int8(math.MinInt8),
		gocql.UUID{}, low, []int{}, []string{}, map[string]int{}, map[string][]int{}, nil, nil, nil, map[string]any{},
		map[string]any{"street": "", "zip": 0, "tags": []string{}}}
	return [][]any{ordinary, nulls, extreme}
}

func types(s *gocql.Session) {
	names := append([]string{"id"}, regexp.MustCompile(`\bc_\w+`).FindAllString(schema[4], -1)...)
	marks := strings.Repeat("?, ", len(names)-3) + "(?, ?, ?), ?, ?" // the tuple is the third last
	for _, values := range kinds() {
		must(s.Query("INSERT INTO kinds ("+strings.Join(names, ", ")+") VALUES ("+marks+")", values...).Exec())
		say("types", facts{"row": rows(s.Query("SELECT * FROM kinds WHERE id = ?", values[0]).Iter()),
			"json": rows(s.Query("SELECT JSON * FROM kinds WHERE id = ?", values[0]).Iter())})
	}
	if withVectors() {
		vectors(s)
	}
}

type tracer struct{ ids atomic.Int32 }

func (t *tracer) Trace([]byte) { t.ids.Add(1) }

func extras(s *gocql.Session) {
	t := &tracer{}
	traced := rows(s.Query("SELECT v FROM pairs WHERE k = 1").Trace(t).Iter())
	say("tracing", facts{"id": t.ids.Load() > 0, "rows": traced})
	batch := s.NewBatch(gocql.UnloggedBatch)
	for pk := 1000; pk < 1020; pk++ {
		batch.Query("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)", pk, 0, "wide")
	}
	say("warning", facts{"of": "batch", "warnings": batchWarnings(s, batch)})
	iter := s.Query("SELECT count(*) FROM pairs").Iter()
	say("warning", facts{"of": "aggregate", "warnings": iter.Warnings(), "rows": rows(iter)})
	iter = s.Query("SELECT v FROM pairs WHERE k = 1").CustomPayload(map[string][]byte{"narrows": {1, 2}}).Iter()
	say("payload", facts{"returned": len(iter.GetCustomPayload()), "rows": rows(iter)})
}

func failures(s *gocql.Session) {
	for _, failure := range [][2]string{
		{"syntax", "SELEKT nothing"},
		{"unknown table", "SELECT * FROM no_such_table"},
		{"unknown keyspace", "SELECT * FROM no_such_keyspace_at_all.t"},
		{"table exists", schema[1]},
		{"wrong type", "INSERT INTO pairs (k, v) VALUES ('text', 1)"},
	} {
		err := s.Query(failure[1]).Exec()
		var request gocql.RequestError
		if errors.As(err, &request) {
			say("error", facts{"of": failure[0], "code": request.Code(), "message": request.Message()})
		} else {
			say("error", facts{"of": failure[0], "message": fmt.Sprint(err)})
		}
	}
}

func lwt(s *gocql.Session) {
	insert := "INSERT INTO pairs (k, v) VALUES (?, ?) IF NOT EXISTS"
	for _, query := range []*gocql.Query{s.Query(insert, 500, "first"), s.Query(insert, 500, "second"),
		s.Query("UPDATE pairs SET v = 'third' WHERE k = 500 IF v = 'first'")} {
		row := map[string]any{}
		applied, err := query.MapScanCAS(row)
		must(err)
		say("lwt", facts{"applied": applied, "row": fmt.Sprint(row)})
	}
}

// events: the driver keeps a keyspace's metadata until an event says otherwise; another session makes the changes.
func events(s *gocql.Session) {
	other := open(1, keyspace, false)
	defer other.Close()
	eventually := func(condition func(*gocql.TableMetadata) bool) bool {
		for range 400 {
			metadata, err := s.KeyspaceMetadata(keyspace)
			must(err)
			if condition(metadata.Tables["event_seen"]) {
				return true
			}
			time.Sleep(50 * time.Millisecond)
		}
		return false
	}
	before := eventually(func(t *gocql.TableMetadata) bool { return t == nil })
	must(other.Query("CREATE TABLE event_seen (k int PRIMARY KEY)").Exec())
	created := eventually(func(t *gocql.TableMetadata) bool { return t != nil })
	must(other.Query("ALTER TABLE event_seen ADD extra text").Exec())
	altered := eventually(func(t *gocql.TableMetadata) bool { return t != nil && t.Columns["extra"] != nil })
	must(other.Query("DROP TABLE event_seen").Exec())
	dropped := eventually(func(t *gocql.TableMetadata) bool { return t == nil })
	say("events", facts{"before": before, "created": created, "altered": altered, "dropped": dropped})
}

func spread(s *gocql.Session) {
	answered := map[string]int{}
	for k := range 60 {
		iter := s.Query("SELECT v FROM pairs WHERE k = ?", k).Iter()
		answered[iter.Host().ConnectAddress().String()]++
		must(iter.Close())
	}
	say("spread", facts{"topology": true, "answered": answered})
}

// concurrent: one node, one data connection, every request in flight at once.
func concurrent() {
	s := open(1, keyspace, true)
	defer s.Close()
	each := func(action func(k int)) {
		var all sync.WaitGroup
		for k := 10_000; k < 10_000+concurrency; k++ {
			all.Add(1)
			go func() { defer all.Done(); action(k) }()
		}
		all.Wait()
	}
	var right, failed atomic.Int32
	each(func(k int) {
		if s.Query("INSERT INTO pairs (k, v) VALUES (?, ?)", k, fmt.Sprint("many ", k)).Exec() != nil {
			failed.Add(1)
		}
	})
	each(func(k int) {
		var v string
		if s.Query("SELECT v FROM pairs WHERE k = ?", k).Scan(&v) == nil && v == fmt.Sprint("many ", k) {
			right.Add(1)
		}
	})
	say("concurrent", facts{"requests": concurrency, "failed": failed.Load(), "right": right.Load()})
}

// wide reads one partition with the driver's own paging, forwards and backwards.
func wide(s *gocql.Session) {
	for _, size := range []int{5000, 999} {
		for _, order := range []string{"ASC", "DESC"} {
			digest, rows := sha256.New(), 0
			iter := s.Query("SELECT ck, n, v FROM "+wideTable+" WHERE pk = ? ORDER BY ck "+order, "wide").PageSize(size).Iter()
			var ck int
			var n int64
			var v *string
			for ; iter.Scan(&ck, &n, &v); rows++ {
				text := "null"
				if v != nil {
					text = *v
				}
				fmt.Fprintf(digest, "%d,%d,%s\n", ck, n, text)
			}
			must(iter.Close())
			say("wide", facts{"size": size, "order": order, "rows": rows, "digest": fmt.Sprintf("%x", digest.Sum(nil))})
		}
	}
}
