// The driver scenario with npm cassandra-driver: one JSON line a step (see ../README.md).
// It has neither compression nor protocol v5, so DRIVER_COMPRESSION is not read.
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const cassandra = require("cassandra-driver");
const { types, policies } = cassandra;

const env = process.env;
const CONTACTS = env.DRIVER_CONTACTS.split(",");
const [HOST, PORT] = CONTACTS[0].split(":");
const DC = env.DRIVER_DC;
const KEYSPACE = env.DRIVER_KEYSPACE;
const CONCURRENT = Number(env.DRIVER_CONCURRENT || 5000);
const VECTOR = env.DRIVER_VECTOR !== "0";
const SCHEMA = fs.readFileSync(env.DRIVER_SCHEMA, "utf8").split("\n")
  .filter((line) => line.startsWith("CREATE") && (VECTOR || !line.includes("vector<")));
const WIDE = env.DRIVER_WIDE;
const PREPARED = { prepare: true };

function say(step, facts) {
  process.stdout.write(JSON.stringify({ step, ...facts }) + "\n");
}

function client(options = {}) {
  const made = new cassandra.Client({
    contactPoints: options.contacts || CONTACTS,
    localDataCenter: DC,
    protocolOptions: { port: Number(PORT), maxSchemaAgreementWaitSeconds: 30, maxVersion: Number(env.DRIVER_PROTOCOL) || undefined },
    pooling: { coreConnectionsPerHost: { 0: options.connections || 1, 1: 1, 2: 1 }, maxRequestsPerConnection: 32000, warmup: true },
    socketOptions: { readTimeout: 60000, connectTimeout: 15000 },
    policies: { loadBalancing: options.policy || new policies.loadBalancing.TokenAwarePolicy(new policies.loadBalancing.DCAwareRoundRobinPolicy(DC)) },
    queryOptions: { consistency: types.consistencies.localOne },
    refreshSchemaDelay: 50,
    keyspace: options.keyspace,
  });
  return made;
}

const address = (host) => host.split(":")[0];
const columns = (result) => result.columns.map((c) => c.name).sort();

/** Driver values as JSON values. */
function plain(value) {
  if (Buffer.isBuffer(value)) return "0x" + value.toString("hex");
  if (value instanceof types.Tuple) return value.elements.map(plain);
  if (value instanceof Float32Array || Array.isArray(value)) return Array.from(value, plain);
  if (value instanceof Date) return value.toISOString();
  if (value !== null && typeof value === "object") {
    if (value.constructor === Object || value.constructor === types.Row) {
      return Object.fromEntries(Object.keys(value).sort().map((k) => [k, plain(value[k])]));
    }
    return value.toString();
  }
  return value === undefined ? null : value;
}

async function eventually(condition) {
  for (let i = 0; i < 400; i++) {
    if (await condition()) return true;
    await new Promise((done) => setTimeout(done, 50));
  }
  return false;
}

async function connect(session) {
  const local = await session.execute("SELECT cluster_name, partitioner, release_version FROM system.local");
  say("connect", { protocol: session.controlConnection.protocolVersion, local: plain(local.first()) });
}

async function hosts(session) {
  const peers = await session.execute("SELECT * FROM system.peers");
  say("system", {
    local: columns(await session.execute("SELECT * FROM system.local")), peers: columns(peers),
    peers_v2: columns(await session.execute("SELECT * FROM system.peers_v2")),
  });
  const seen = session.hosts.values();
  say("hosts", { topology: true, hosts: seen.length, peers: peers.rowLength, addresses: seen.map((h) => address(h.address)).sort() });
}

async function schema(session) {
  const agreed = [];
  const ddl = async (text) => agreed.push((await session.execute(text)).info.isSchemaInAgreement);
  await ddl(`CREATE KEYSPACE ${KEYSPACE} WITH replication = {'class': 'NetworkTopologyStrategy', '${DC}': 1}`);
  await session.execute(`USE ${KEYSPACE}`);
  say("keyspace", { session_keyspace: session.keyspace });
  const used = [];
  for (const statement of SCHEMA) {
    await ddl(statement);
    if (!statement.startsWith("CREATE TABLE")) continue;
    const table = statement.split(" ")[2];
    used.push([table, (await session.execute(`SELECT * FROM ${table}`)).rowLength]);
  }
  say("schema", { agreed, used_at_once: used });
}

async function prepare(session) {
  // Two connections a node: the driver prepares on one of them and executes on both in turn.
  for (let k = 0; k < 60; k++) await session.execute("INSERT INTO pairs (k, v) VALUES (?, ?)", [k, `value ${k}`], PREPARED);
  const rows = [];
  for (let k = 0; k < 60; k++) rows.push(plain((await session.execute("SELECT k, v FROM pairs WHERE k = ?", [k], PREPARED)).first()));
  say("prepare", { rows });
  const text = "INSERT INTO pairs (k, v) VALUES (:key, :value)";
  await session.execute(text, { value: "by name", key: 200 }, { hints: { key: "int", value: "text" } });
  await session.execute(text, { value: "by name, prepared", key: 201 }, PREPARED);
  say("named", { rows: plain((await session.execute("SELECT * FROM pairs WHERE k IN (200, 201)")).rows) });
}

async function paging(session) {
  for (const pk of [1, 2]) {
    for (let ck = 0; ck < 10; ck++) {
      await session.execute("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)", [pk, ck, `${pk}/${ck} ` + "x".repeat(100)], PREPARED);
    }
  }
  for (const fetchSize of [1, 3, 7, 50]) {
    const pages = [], rows = [], iterated = [], scanned = [];
    let pageState;
    do {
      const page = await session.execute("SELECT pk, ck, v FROM pages WHERE pk = ?", [1], { prepare: true, fetchSize, pageState });
      pages.push(page.rowLength);
      rows.push(...plain(page.rows));
      pageState = page.pageState;
    } while (pageState);
    for await (const row of await session.execute("SELECT ck FROM pages WHERE pk = ?", [1], { prepare: true, fetchSize })) iterated.push(row.ck);
    for await (const row of await session.execute("SELECT pk, ck FROM pages", [], { fetchSize })) scanned.push([row.pk, row.ck]);
    say("paging", { size: fetchSize, pages, rows, iterated, scanned });
  }
}

async function batches(session) {
  // The driver prepares all statements of a batch or none, so the mix is made of two batches.
  for (const [kind, logged, pk] of [["LOGGED", true, 100], ["UNLOGGED", false, 101]]) {
    for (const prepare of [true, false]) {
      const rows = [[pk, prepare ? 1 : 2, prepare ? "prepared" : "simple"], [pk, prepare ? 3 : 4, null]];
      const batch = rows.map((params) => ({ query: "INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)", params }));
      await session.batch(batch, { prepare, logged, hints: [["int", "int", "text"], ["int", "int", "text"]] });
    }
    say("batch", { kind, rows: plain((await session.execute("SELECT * FROM pages WHERE pk = ?", [pk], PREPARED)).rows) });
  }
  await session.batch([
    { query: "UPDATE counts SET n = n + ? WHERE k = ?", params: [5, "a"] },
    { query: "UPDATE counts SET n = n - ? WHERE k = ?", params: [2, "b"] },
  ], { prepare: true, counter: true });
  say("batch", { kind: "COUNTER", rows: plain((await session.execute("SELECT * FROM counts")).rows) });
}

/** Three rows of every type: ordinary values, nulls, and empty or extreme values. */
function kinds() {
  const { BigDecimal, Duration, InetAddress, Integer, LocalDate, LocalTime, Long, TimeUuid, Tuple, Uuid } = types;
  const ordinary = [0, "ascii", Long.fromString("1099511627776"), Buffer.from([0, 255]), true, new LocalDate(2024, 2, 29),
    BigDecimal.fromString("12345.6789"), 2.5, new Duration(14, 3, Long.fromString("5000000000")), 1.5, InetAddress.fromString("192.168.1.9"),
    42, 7, "grüße ✓", LocalTime.fromString("01:00:00.000000001"), new Date("2024-02-29T12:30:15.123Z"),
    TimeUuid.fromString("2b3bfe00-d6f5-11ee-8000-0123456789ab"), 5, Uuid.fromString("6f1c2d3e-4b5a-4978-8695-a4b3c2d1e0ff"),
    Integer.fromString("1208925819614629174706176"), [3, 1, 2], ["a", "b"], { one: 1, two: 2 }, { x: [1, 2], y: [3] },
    new Tuple(1, "two", false), { street: "Main St", zip: 12345, tags: ["s", "t"] }, { street: "Side St", zip: null, tags: null }];
  const nulls = ordinary.map((_, i) => (i ? null : 1));
  const extreme = [2, "", Long.MIN_VALUE, Buffer.alloc(0), false, new LocalDate(1, 1, 1), BigDecimal.fromString("-0.00000000000000000001"),
    -1e300, new Duration(-1, -2, Long.fromString("-3")), -0.5, InetAddress.fromString("2001:db8::1"), -2147483648, -32768, "",
    LocalTime.fromString("00:00:00"), new Date("1960-01-01T00:00:00Z"), TimeUuid.fromString("00000000-0000-1000-8080-808080808080"), -128,
    Uuid.fromString("00000000-0000-0000-0000-000000000000"), Integer.fromString("-170141183460469231731687303715884105729"),
    [], [], {}, {}, new Tuple(null, null, null), { street: null, zip: null, tags: null }, { street: "", zip: 0, tags: [] }];
  return [ordinary, nulls, extreme];
}

async function roundTrip(session) {
  const names = ["id", ...SCHEMA[4].match(/\bc_\w+/g)];
  const insert = `INSERT INTO kinds (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`;
  for (const values of kinds()) {
    await session.execute(insert, values, PREPARED);
    const row = (await session.execute("SELECT * FROM kinds WHERE id = ?", [values[0]], PREPARED)).first();
    const json = (await session.execute("SELECT JSON * FROM kinds WHERE id = ?", [values[0]], PREPARED)).first();
    say("types", { row: plain(row), json: json["[json]"] });
  }
  if (!VECTOR) return;
  await session.execute("INSERT INTO vectors (id, v) VALUES (?, ?)", [1, new Float32Array([1.5, -2.25, 0])], PREPARED);
  const rows = (await session.execute("SELECT * FROM vectors")).rows;
  say("vector", { rows: rows.map((r) => [r.id, Array.from(r.v)]) });
}

async function extras(session) {
  const traced = await session.execute("SELECT v FROM pairs WHERE k = 1", [], { traceQuery: true });
  say("tracing", { id: Boolean(traced.info.traceId), rows: plain(traced.rows) });
  const wide = Array.from({ length: 20 }, (_, i) => ({ query: "INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)", params: [1000 + i, 0, "wide"] }));
  say("warning", { of: "batch", warnings: (await session.batch(wide, { prepare: true, logged: false })).info.warnings });
  const count = await session.execute("SELECT count(*) FROM pairs");
  say("warning", { of: "aggregate", warnings: count.info.warnings, rows: plain(count.rows) });
  const paid = await session.execute("SELECT v FROM pairs WHERE k = 1", [], { customPayload: { narrows: Buffer.from([1, 2]) } });
  say("payload", { rows: plain(paid.rows), returned: paid.info.customPayload || null });
}

async function errors(session) {
  for (const [of, text, options] of [
    ["syntax", "SELEKT nothing"],
    ["unknown table", "SELECT * FROM no_such_table"],
    ["unknown table prepared", "SELECT * FROM no_such_table WHERE k = 1", PREPARED],
    ["unknown keyspace", "USE no_such_keyspace_at_all"],
    ["table exists", SCHEMA[1]],
    ["wrong type", "INSERT INTO pairs (k, v) VALUES ('text', 1)"],
  ]) {
    try {
      await session.execute(text, [], options);
      say("error", { of, error: null });
    } catch (error) {
      say("error", { of, kind: error.name, code: error.code, message: error.message });
    }
  }
}

async function lwt(session) {
  const insert = "INSERT INTO pairs (k, v) VALUES (?, ?) IF NOT EXISTS";
  for (const [text, params] of [[insert, [500, "first"]], [insert, [500, "second"]],
    ["UPDATE pairs SET v = 'third' WHERE k = 500 IF v = 'first'", []]]) {
    const result = await session.execute(text, params, PREPARED);
    say("lwt", { applied: result.wasApplied(), row: plain(result.first()) });
  }
}

/** The driver caches a table's metadata until an event says otherwise; another client makes the changes. */
async function events(session) {
  const other = client({ keyspace: KEYSPACE });
  const table = () => session.metadata.getTable(KEYSPACE, "event_seen");
  await other.execute("CREATE TABLE event_seen (k int PRIMARY KEY)");
  const created = await eventually(table);
  await other.execute("ALTER TABLE event_seen ADD extra text");
  const altered = await eventually(async () => (await table()).columns.some((c) => c.name === "extra"));
  await other.execute("DROP TABLE event_seen");
  const dropped = await eventually(async () => !(await table()));
  await other.shutdown();
  say("events", { created, altered, dropped });
}

async function spread(session) {
  const answered = {};
  for (let k = 0; k < 60; k++) {
    const host = address((await session.execute("SELECT v FROM pairs WHERE k = ?", [k], PREPARED)).info.queriedHost);
    answered[host] = (answered[host] || 0) + 1;
  }
  say("spread", { topology: true, answered });
}

/** One node, one data connection, every request in flight at once. */
async function concurrent() {
  const { AllowListPolicy, RoundRobinPolicy } = policies.loadBalancing;
  const one = client({ keyspace: KEYSPACE, contacts: [CONTACTS[0]], policy: new AllowListPolicy(new RoundRobinPolicy(), [`${HOST}:${PORT}`]) });
  await one.connect();
  const keys = Array.from({ length: CONCURRENT }, (_, i) => 10000 + i);
  await Promise.all(keys.map((k) => one.execute("INSERT INTO pairs (k, v) VALUES (?, ?)", [k, `many ${k}`], PREPARED)));
  const found = await Promise.all(keys.map((k) => one.execute("SELECT k, v FROM pairs WHERE k = ?", [k], PREPARED)));
  const right = found.filter((r, i) => r.first().k === keys[i] && r.first().v === `many ${keys[i]}`).length;
  const state = one.getState();
  const connections = state.getConnectedHosts().reduce((sum, host) => sum + state.getOpenConnections(host), 0);
  await one.shutdown();
  say("concurrent", { requests: CONCURRENT, right, connections });
}

/** One partition with the driver's own paging, forwards and backwards. */
async function wide(session) {
  for (const fetchSize of [5000, 999]) {
    for (const order of ["ASC", "DESC"]) {
      const digest = crypto.createHash("sha256");
      let rows = 0;
      const found = await session.execute(`SELECT ck, n, v FROM ${WIDE} WHERE pk = ? ORDER BY ck ${order}`, ["wide"], { prepare: true, fetchSize });
      for await (const row of found) {
        digest.update(`${row.ck},${row.n},${row.v}\n`);
        rows++;
      }
      say("wide", { size: fetchSize, order, rows, digest: digest.digest("hex") });
    }
  }
}

async function main() {
  if (WIDE) {
    const one = client();
    await one.connect();
    await wide(one);
    await one.shutdown();
    return say("end", {});
  }
  const session = client({ connections: 2 });
  await session.connect();
  try {
    for (const step of [connect, schema, hosts, prepare, paging, batches, roundTrip, extras, errors, lwt, events, spread, concurrent]) await step(session);
  } finally {
    await session.execute(`DROP KEYSPACE IF EXISTS ${KEYSPACE}`);
    await session.shutdown();
  }
  say("end", {});
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
