// The driver scenario with Apache java-driver-core 4: one JSON line a step (see ../../README.md).

import com.datastax.oss.driver.api.core.*;
import com.datastax.oss.driver.api.core.config.*;
import com.datastax.oss.driver.api.core.cql.*;
import com.datastax.oss.driver.api.core.data.*;
import com.datastax.oss.driver.api.core.loadbalancing.NodeDistance;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.metadata.schema.*;
import com.datastax.oss.driver.api.core.type.*;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.*;
import java.net.*;
import java.nio.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.security.MessageDigest;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;

public class Main {
  static final String KEYSPACE = System.getenv("DRIVER_KEYSPACE");
  static final String DC = System.getenv("DRIVER_DC");
  static final String PROTOCOL = System.getenv("DRIVER_PROTOCOL");
  static final String COMPRESSION = System.getenv().getOrDefault("DRIVER_COMPRESSION", "none");
  static final int CONCURRENT = Integer.parseInt(System.getenv().getOrDefault("DRIVER_CONCURRENT", "5000"));
  static final boolean VECTOR = !"0".equals(System.getenv("DRIVER_VECTOR"));
  static final String WIDE = System.getenv("DRIVER_WIDE");
  static final ObjectMapper JSON = new ObjectMapper();
  static final List<InetSocketAddress> CONTACTS = Arrays.stream(System.getenv("DRIVER_CONTACTS").split(","))
      .map(c -> c.split(":")).map(c -> new InetSocketAddress(c[0], Integer.parseInt(c[1]))).toList();
  static List<String> schema;

  public static void main(String[] args) throws Exception {
    schema = Files.readAllLines(Path.of(System.getenv("DRIVER_SCHEMA"))).stream()
        .filter(l -> l.startsWith("CREATE") && (VECTOR || !l.contains("vector<"))).toList();
    if (WIDE != null) {
      try (CqlSession session = open(1, null, null, null)) {
        wide(session);
      }
      say("end");
      return;
    }
    Recorder recorder = new Recorder();
    try (CqlSession session = open(2, null, recorder, null)) {
      connect(session);
      try {
        createSchema(session);
        hosts(session);
        try (CqlSession other = open(1, KEYSPACE, null, null)) {
          prepare(session, other);
          events(other, recorder);
        }
        paging(session);
        batches(session);
        types(session);
        extras(session);
        errors(session);
        lwt(session);
        spread(session);
        concurrent();
      } finally {
        session.execute("DROP KEYSPACE IF EXISTS " + KEYSPACE);
      }
    }
    say("end");
  }

  /** One partition with the driver's own paging, forwards and backwards. */
  static void wide(CqlSession session) throws Exception {
    for (int size : new int[] {5000, 999}) {
      for (String order : List.of("ASC", "DESC")) {
        PreparedStatement select = session.prepare("SELECT ck, n, v FROM " + WIDE + " WHERE pk = ? ORDER BY ck " + order);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        int rows = 0;
        for (Row row : session.execute(select.bind("wide").setPageSize(size))) {
          String text = row.getInt("ck") + "," + row.getLong("n") + "," + row.getString("v") + "\n";
          digest.update(text.getBytes(StandardCharsets.UTF_8));
          rows++;
        }
        say("wide", "size", size, "order", order, "rows", rows, "digest", HexFormat.of().formatHex(digest.digest()));
      }
    }
  }

  /** A session with so many connections a node; {@code only} keeps it to one node. */
  static CqlSession open(int connections, String keyspace, SchemaChangeListener listener, InetSocketAddress only) {
    ProgrammaticDriverConfigLoaderBuilder config = DriverConfigLoader.programmaticBuilder()
        .withInt(DefaultDriverOption.CONNECTION_POOL_LOCAL_SIZE, connections)
        .withInt(DefaultDriverOption.CONNECTION_MAX_REQUESTS, 32_000)
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(60))
        .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(15))
        .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofSeconds(15))
        .withDuration(DefaultDriverOption.METADATA_SCHEMA_REQUEST_TIMEOUT, Duration.ofSeconds(20))
        .withDuration(DefaultDriverOption.CONTROL_CONNECTION_AGREEMENT_TIMEOUT, Duration.ofSeconds(30))
        .withInt(DefaultDriverOption.REQUEST_TRACE_ATTEMPTS, 200);
    if (PROTOCOL != null) config.withString(DefaultDriverOption.PROTOCOL_VERSION, "V" + PROTOCOL);
    if (!COMPRESSION.equals("none")) config.withString(DefaultDriverOption.PROTOCOL_COMPRESSION, COMPRESSION);
    CqlSessionBuilder builder = CqlSession.builder().withConfigLoader(config.build())
        .addContactPoints(CONTACTS).withLocalDatacenter(DC);
    if (keyspace != null) builder.withKeyspace(keyspace);
    if (listener != null) builder.addSchemaChangeListener(listener);
    if (only != null) {
      builder.withNodeDistanceEvaluator((node, dc) -> address(node).equals(only.getHostString()) ? null : NodeDistance.IGNORED);
    }
    return builder.build();
  }

  static void say(String step, Object... facts) throws Exception {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("step", step);
    for (int i = 0; i < facts.length; i += 2) line.put((String) facts[i], facts[i + 1]);
    System.out.println(JSON.writeValueAsString(line));
  }

  static String address(Node node) {
    return ((InetSocketAddress) node.getEndPoint().resolve()).getAddress().getHostAddress();
  }

  /** A row as CQL literals by column name. */
  static Map<String, String> row(Row row) {
    Map<String, String> out = new TreeMap<>();
    if (row == null) return out;
    for (ColumnDefinition c : row.getColumnDefinitions()) {
      out.put(c.getName().asInternal(), row.codecRegistry().codecFor(c.getType()).format(row.getObject(c.getName())));
    }
    return out;
  }

  static List<Map<String, String>> rows(Iterable<Row> rows) {
    return StreamSupport.stream(rows.spliterator(), false).map(Main::row).toList();
  }

  static void connect(CqlSession session) throws Exception {
    Row local = session.execute("SELECT cluster_name, partitioner, release_version FROM system.local").one();
    say("connect", "protocol", session.getContext().getProtocolVersion().toString(), "compression",
        session.getContext().getConfig().getDefaultProfile().getString(DefaultDriverOption.PROTOCOL_COMPRESSION, "none"), "local", row(local));
  }

  static void hosts(CqlSession session) throws Exception {
    ResultSet peers = session.execute("SELECT * FROM system.peers");
    say("system", "local", names(session.execute("SELECT * FROM system.local")), "peers", names(peers),
        "peers_v2", names(session.execute("SELECT * FROM system.peers_v2")));
    Collection<Node> nodes = session.getMetadata().getNodes().values();
    say("hosts", "topology", true, "hosts", nodes.size(), "peers", peers.all().size(),
        "addresses", nodes.stream().map(Main::address).sorted().toList());
  }

  static List<String> names(ResultSet result) {
    return StreamSupport.stream(result.getColumnDefinitions().spliterator(), false).map(c -> c.getName().asInternal()).sorted().toList();
  }

  static void createSchema(CqlSession session) throws Exception {
    List<Boolean> agreed = new ArrayList<>();
    agreed.add(session.execute("CREATE KEYSPACE " + KEYSPACE + " WITH replication = {'class': 'NetworkTopologyStrategy', '" + DC + "': 1}")
        .getExecutionInfo().isSchemaInAgreement());
    session.execute("USE " + KEYSPACE);
    say("keyspace", "session_keyspace", session.getKeyspace().map(CqlIdentifier::asInternal).orElse(null));
    Map<String, Integer> used = new LinkedHashMap<>();
    for (String statement : schema) {
      agreed.add(session.execute(statement).getExecutionInfo().isSchemaInAgreement());
      if (!statement.startsWith("CREATE TABLE")) continue;
      String table = statement.split(" ")[2];
      used.put(table, session.execute("SELECT * FROM " + table).all().size());
    }
    say("schema", "agreed", agreed, "used_at_once", used);
  }

  /** The other session never prepares: it sends the ids that the first one got. */
  static void prepare(CqlSession session, CqlSession other) throws Exception {
    PreparedStatement insert = session.prepare("INSERT INTO pairs (k, v) VALUES (?, ?)");
    PreparedStatement select = session.prepare("SELECT k, v FROM pairs WHERE k = ?");
    List<Object> found = new ArrayList<>();
    for (int k = 0; k < 60; k++) other.execute(insert.bind(k, "value " + k));
    for (int k = 0; k < 60; k++) found.add(row(other.execute(select.bind(k)).one()));
    say("prepare", "rows", found);
    session.execute(SimpleStatement.newInstance("INSERT INTO pairs (k, v) VALUES (:key, :value)", Map.of("key", 200, "value", "by name")));
    session.execute(session.prepare("INSERT INTO pairs (k, v) VALUES (:key, :value)").boundStatementBuilder()
        .setString("value", "by name, prepared").setInt("key", 201).build());
    say("named", "rows", rows(session.execute("SELECT * FROM pairs WHERE k IN (200, 201)")));
  }

  static void paging(CqlSession session) throws Exception {
    PreparedStatement insert = session.prepare("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)");
    for (int pk = 1; pk <= 2; pk++)
      for (int ck = 0; ck < 10; ck++) session.execute(insert.bind(pk, ck, pk + "/" + ck + " " + "x".repeat(100)));
    PreparedStatement select = session.prepare("SELECT pk, ck, v FROM pages WHERE pk = ?");
    for (int size : new int[] {1, 3, 7, 50}) {
      List<Integer> pages = new ArrayList<>();
      List<Object> all = new ArrayList<>();
      AsyncResultSet page = session.executeAsync(select.bind(1).setPageSize(size)).toCompletableFuture().get();
      while (true) {
        List<Map<String, String>> current = rows(page.currentPage());
        pages.add(current.size());
        all.addAll(current);
        if (!page.hasMorePages()) break;
        page = page.fetchNextPage().toCompletableFuture().get();
      }
      List<Row> scanned = session.execute(SimpleStatement.newInstance("SELECT pk, ck FROM pages").setPageSize(size)).all();
      say("paging", "size", size, "pages", pages, "rows", all, "scanned", rows(scanned));
    }
  }

  static void batches(CqlSession session) throws Exception {
    PreparedStatement insert = session.prepare("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)");
    for (BatchType kind : List.of(BatchType.LOGGED, BatchType.UNLOGGED)) {
      int pk = kind == BatchType.LOGGED ? 100 : 101;
      session.execute(BatchStatement.newInstance(kind, insert.bind(pk, 1, "prepared"),
          SimpleStatement.newInstance("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)", pk, 2, "simple"), insert.bind(pk, 3, null)));
      say("batch", "kind", kind.toString(), "rows", rows(session.execute("SELECT * FROM pages WHERE pk = " + pk)));
    }
    PreparedStatement count = session.prepare("UPDATE counts SET n = n + ? WHERE k = ?");
    session.execute(BatchStatement.newInstance(BatchType.COUNTER, count.bind(5L, "a"),
        SimpleStatement.newInstance("UPDATE counts SET n = n - 2 WHERE k = 'b'")));
    say("batch", "kind", "COUNTER", "rows", rows(session.execute("SELECT * FROM counts")));
  }

  /** Three rows of every type: ordinary values, nulls, and empty or extreme values. */
  static List<Object[]> kinds(PreparedStatement insert) {
    ColumnDefinitions variables = insert.getVariableDefinitions();
    TupleType tuple = (TupleType) variables.get("c_tuple").getType();
    UserDefinedType udt = (UserDefinedType) variables.get("c_udt").getType();
    UserDefinedType frozen = (UserDefinedType) variables.get("c_frozen_udt").getType();
    Object[] ordinary = {0, "ascii", 1L << 40, ByteBuffer.wrap(new byte[] {0, -1}), true, LocalDate.of(2024, 2, 29), new BigDecimal("12345.6789"),
        2.5, CqlDuration.newInstance(14, 3, 5_000_000_000L), 1.5f, ip("192.168.1.9"), 42, (short) 7, "grüße ✓", LocalTime.ofNanoOfDay(3_600_000_000_001L),
        Instant.parse("2024-02-29T12:30:15.123Z"), UUID.fromString("2b3bfe00-d6f5-11ee-8000-0123456789ab"), (byte) 5,
        UUID.fromString("6f1c2d3e-4b5a-4978-8695-a4b3c2d1e0ff"), BigInteger.TWO.pow(80), List.of(3, 1, 2), new TreeSet<>(Set.of("b", "a")),
        new TreeMap<>(Map.of("one", 1, "two", 2)), new TreeMap<>(Map.of("x", List.of(1, 2), "y", List.of())), tuple.newValue(1, "two", false),
        udt.newValue("Main St", 12345, new TreeSet<>(Set.of("t", "s"))), frozen.newValue("Side St", null, null)};
    Object[] nulls = new Object[ordinary.length];
    nulls[0] = 1;
    Object[] extreme = {2, "", Long.MIN_VALUE, ByteBuffer.allocate(0), false, LocalDate.of(-1, 1, 1), new BigDecimal("-1E-20"), -1e300,
        CqlDuration.newInstance(-1, -2, -3), -0.5f, ip("2001:db8::1"), Integer.MIN_VALUE, Short.MIN_VALUE, "", LocalTime.MIDNIGHT,
        Instant.parse("1960-01-01T00:00:00Z"), UUID.fromString("00000000-0000-1000-8080-808080808080"), Byte.MIN_VALUE, new UUID(0, 0),
        BigInteger.TWO.pow(127).negate().subtract(BigInteger.ONE), List.of(), Set.of(), Map.of(), Map.of(), tuple.newValue(),
        udt.newValue(), frozen.newValue("", 0, Set.of())};
    return List.of(ordinary, nulls, extreme);
  }

  static InetAddress ip(String text) {
    try {
      return InetAddress.getByName(text);
    } catch (UnknownHostException e) {
      throw new IllegalArgumentException(e);
    }
  }

  static void types(CqlSession session) throws Exception {
    List<String> columns = session.getMetadata().getKeyspace(KEYSPACE).orElseThrow().getTable("kinds").orElseThrow()
        .getColumns().keySet().stream().map(CqlIdentifier::asInternal).toList();
    String order = schema.get(4).substring(schema.get(4).indexOf("c_ascii"));
    List<String> ordered = Stream.concat(Stream.of("id"), columns.stream().filter(c -> !c.equals("id"))
        .sorted(Comparator.comparingInt(c -> order.indexOf(c + " ")))).toList();
    PreparedStatement insert = session.prepare("INSERT INTO kinds (" + String.join(", ", ordered) + ") VALUES ("
        + ordered.stream().map(c -> "?").collect(Collectors.joining(", ")) + ")");
    PreparedStatement select = session.prepare("SELECT * FROM kinds WHERE id = ?");
    for (Object[] values : kinds(insert)) {
      session.execute(insert.bind(values));
      say("types", "row", row(session.execute(select.bind(values[0])).one()),
          "json", session.execute("SELECT JSON * FROM kinds WHERE id = " + values[0]).one().getString(0));
    }
    if (!VECTOR) return;
    session.execute(session.prepare("INSERT INTO vectors (id, v) VALUES (?, ?)").bind(1, CqlVector.newInstance(1.5f, -2.25f, 0f)));
    say("vector", "rows", rows(session.execute("SELECT * FROM vectors")));
  }

  static void extras(CqlSession session) throws Exception {
    ResultSet traced = session.execute(SimpleStatement.newInstance("SELECT v FROM pairs WHERE k = 1").setTracing(true));
    QueryTrace trace = traced.getExecutionInfo().getQueryTrace();
    // Cassandra writes the events of a trace apart from its end.
    for (int attempt = 0; trace.getEvents().isEmpty() && attempt < 200; attempt++) {
      Thread.sleep(100);
      trace = traced.getExecutionInfo().getQueryTrace();
    }
    say("tracing", "id", traced.getExecutionInfo().getTracingId() != null, "rows", rows(traced), "request", trace.getRequestType(),
        "query", trace.getParameters().get("query"), "has_events", !trace.getEvents().isEmpty());
    PreparedStatement insert = session.prepare("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)");
    BatchStatementBuilder wide = BatchStatement.builder(BatchType.UNLOGGED);
    for (int pk = 1000; pk < 1020; pk++) wide.addStatement(insert.bind(pk, 0, "wide"));
    say("warning", "of", "batch", "warnings", session.execute(wide.build()).getExecutionInfo().getWarnings());
    ResultSet count = session.execute("SELECT count(*) FROM pairs");
    say("warning", "of", "aggregate", "warnings", count.getExecutionInfo().getWarnings(), "rows", rows(count));
    ResultSet paid = session.execute(SimpleStatement.newInstance("SELECT v FROM pairs WHERE k = 1")
        .setCustomPayload(Map.of("narrows", ByteBuffer.wrap(new byte[] {1, 2}))));
    say("payload", "rows", rows(paid), "returned", paid.getExecutionInfo().getIncomingPayload().keySet());
  }

  static void errors(CqlSession session) throws Exception {
    Map<String, Callable<?>> actions = new LinkedHashMap<>();
    actions.put("syntax", () -> session.execute("SELEKT nothing"));
    actions.put("unknown table", () -> session.execute("SELECT * FROM no_such_table"));
    actions.put("unknown table prepared", () -> session.prepare("SELECT * FROM no_such_table WHERE k = ?"));
    actions.put("unknown keyspace", () -> session.execute("USE no_such_keyspace_at_all"));
    actions.put("table exists", () -> session.execute(schema.get(1)));
    actions.put("wrong type", () -> session.execute("INSERT INTO pairs (k, v) VALUES ('text', 1)"));
    for (Map.Entry<String, Callable<?>> action : actions.entrySet()) {
      try {
        action.getValue().call();
        say("error", "of", action.getKey(), "error", null);
      } catch (Exception e) { // every kind is printed, so nothing is hidden by the wide net
        say("error", "of", action.getKey(), "kind", e.getClass().getSimpleName(), "message", e.getMessage());
      }
    }
  }

  static void lwt(CqlSession session) throws Exception {
    PreparedStatement insert = session.prepare("INSERT INTO pairs (k, v) VALUES (?, ?) IF NOT EXISTS");
    for (Statement<?> s : List.of(insert.bind(500, "first"), insert.bind(500, "second"),
        SimpleStatement.newInstance("UPDATE pairs SET v = 'third' WHERE k = 500 IF v = 'first'"))) {
      ResultSet result = session.execute(s);
      say("lwt", "applied", result.wasApplied(), "row", row(result.one()));
    }
  }

  /** What the listener of the first session has seen of the table that another session makes. */
  static class Recorder extends SchemaChangeListenerBase {
    final Set<String> seen = ConcurrentHashMap.newKeySet();

    @Override public void onTableCreated(TableMetadata t) { seen.add("created " + t.getName()); }

    @Override public void onTableUpdated(TableMetadata now, TableMetadata before) { seen.add("altered " + now.getName()); }

    @Override public void onTableDropped(TableMetadata t) { seen.add("dropped " + t.getName()); }

    boolean sees(String what) throws InterruptedException {
      for (int i = 0; i < 400 && !seen.contains(what); i++) Thread.sleep(50);
      return seen.contains(what);
    }
  }

  static void events(CqlSession other, Recorder recorder) throws Exception {
    other.execute("CREATE TABLE event_seen (k int PRIMARY KEY)");
    boolean created = recorder.sees("created event_seen");
    other.execute("ALTER TABLE event_seen ADD extra text");
    boolean altered = recorder.sees("altered event_seen");
    other.execute("DROP TABLE event_seen");
    say("events", "created", created, "altered", altered, "dropped", recorder.sees("dropped event_seen"));
  }

  static void spread(CqlSession session) throws Exception {
    PreparedStatement select = session.prepare("SELECT v FROM pairs WHERE k = ?");
    Map<String, Integer> answered = new TreeMap<>();
    for (int k = 0; k < 60; k++) answered.merge(address(session.execute(select.bind(k)).getExecutionInfo().getCoordinator()), 1, Integer::sum);
    say("spread", "topology", true, "answered", answered);
  }

  /** One node, one data connection, every request in flight at once. */
  static void concurrent() throws Exception {
    try (CqlSession session = open(1, KEYSPACE, null, CONTACTS.get(0))) {
      PreparedStatement insert = session.prepare("INSERT INTO pairs (k, v) VALUES (?, ?)");
      PreparedStatement select = session.prepare("SELECT v FROM pairs WHERE k = ?");
      IntStream keys = IntStream.range(10_000, 10_000 + CONCURRENT);
      for (var f : keys.mapToObj(k -> session.executeAsync(insert.bind(k, "many " + k)).toCompletableFuture()).toList()) f.get();
      var reads = IntStream.range(10_000, 10_000 + CONCURRENT)
          .mapToObj(k -> session.executeAsync(select.bind(k)).toCompletableFuture()).toList();
      int right = 0;
      for (int i = 0; i < CONCURRENT; i++) if (("many " + (10_000 + i)).equals(reads.get(i).get().one().getString(0))) right++;
      int open = session.getMetadata().getNodes().values().stream().mapToInt(Node::getOpenConnections).sum();
      // The control connection is open to the same node and counts as well.
      say("concurrent", "requests", CONCURRENT, "right", right, "connections", open - 1);
    }
  }
}
