//! The steps of the scenario, in the order in which `main.rs` runs them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::policies::host_filter::AllowListHostFilter;
use scylla::response::PagingState;
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::value::{Counter, CqlValue, Row};
use serde_json::{Value, json};

use crate::{Outcome, Settings, builder, kinds, say};

/// Rows as objects of the driver's own debug text, which tells null, empty and type apart.
fn rows(result: QueryResult) -> Outcome<Vec<Value>> {
    let result = result.into_rows_result()?;
    let names: Vec<String> = result
        .column_specs()
        .iter()
        .map(|c| c.name().to_owned())
        .collect();
    let mut out = Vec::new();
    for row in result.rows::<Row>()? {
        let cells = names.iter().cloned().zip(row?.columns);
        let shown = cells
            .map(|(name, value)| (name, value.map_or(Value::Null, |v| json!(format!("{v:?}")))));
        out.push(Value::Object(shown.collect()));
    }
    Ok(out)
}

pub(crate) async fn query(session: &Session, text: &str) -> Outcome<Vec<Value>> {
    rows(session.query_unpaged(text, ()).await?)
}

async fn columns(session: &Session, table: &str) -> Outcome<Vec<String>> {
    let result = session
        .query_unpaged(format!("SELECT * FROM {table}"), ())
        .await?
        .into_rows_result()?;
    let mut names: Vec<String> = result
        .column_specs()
        .iter()
        .map(|c| c.name().to_owned())
        .collect();
    names.sort();
    Ok(names)
}

pub(crate) async fn hosts(session: &Session) -> Outcome {
    say(
        "system",
        json!({
            "local": columns(session, "system.local").await?,
            "peers": columns(session, "system.peers").await?,
            "peers_v2": columns(session, "system.peers_v2").await?,
        }),
    )?;
    let state = session.get_cluster_state();
    let mut seen: Vec<String> = state
        .get_nodes_info()
        .iter()
        .map(|n| n.address.ip().to_string())
        .collect();
    seen.sort();
    let peers = query(session, "SELECT peer FROM system.peers").await?.len();
    say(
        "hosts",
        json!({"topology": true, "hosts": seen.len(), "peers": peers, "addresses": seen}),
    )
}

pub(crate) async fn create_schema(session: &Session, s: &Settings) -> Outcome {
    let replication = format!(
        "{{'class': 'NetworkTopologyStrategy', '{}': 1}}",
        s.data_center
    );
    session
        .query_unpaged(
            format!(
                "CREATE KEYSPACE {} WITH replication = {replication}",
                s.keyspace
            ),
            (),
        )
        .await?;
    session.use_keyspace(&s.keyspace, false).await?;
    say(
        "keyspace",
        json!({"session_keyspace": session.get_keyspace().map(|k| k.to_string())}),
    )?;
    let (mut agreed, mut used) = (Vec::new(), Vec::new());
    for statement in &s.schema {
        session.query_unpaged(statement.as_str(), ()).await?;
        if statement.starts_with("CREATE TABLE") {
            let table = statement.split(' ').nth(2).unwrap_or_default();
            used.push(json!([
                table,
                query(session, &format!("SELECT * FROM {table}"))
                    .await?
                    .len()
            ]));
        }
        // Other programs change the schema at the same time, so a single look may find the nodes apart.
        agreed.push(session.await_schema_agreement().await.is_ok());
    }
    say("schema", json!({"agreed": agreed, "used_at_once": used}))
}

/// The other session never prepares: it sends the ids that the first one got.
pub(crate) async fn prepare(session: &Session, other: &Session) -> Outcome {
    let insert = session
        .prepare("INSERT INTO pairs (k, v) VALUES (?, ?)")
        .await?;
    let select = session
        .prepare("SELECT k, v FROM pairs WHERE k = ?")
        .await?;
    let mut found = Vec::new();
    for k in 0..60 {
        other
            .execute_unpaged(&insert, (k, format!("value {k}")))
            .await?;
        found.extend(rows(other.execute_unpaged(&select, (k,)).await?)?);
    }
    say("prepare", json!({"rows": found}))?;
    let named = session
        .prepare("INSERT INTO pairs (k, v) VALUES (:key, :value)")
        .await?;
    let values = BTreeMap::from([
        ("value", CqlValue::Text("by name".into())),
        ("key", CqlValue::Int(200)),
    ]);
    session.execute_unpaged(&named, values).await?;
    say(
        "named",
        json!({"rows": rows(session.execute_unpaged(&select, (200,)).await?)?}),
    )
}

pub(crate) async fn paging(session: &Session) -> Outcome {
    let insert = session
        .prepare("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)")
        .await?;
    for (pk, ck) in (1..=2).flat_map(|pk| (0..10).map(move |ck| (pk, ck))) {
        session
            .execute_unpaged(&insert, (pk, ck, format!("{pk}/{ck} {}", "x".repeat(100))))
            .await?;
    }
    let mut select = session
        .prepare("SELECT pk, ck, v FROM pages WHERE pk = ?")
        .await?;
    for size in [1, 3, 7, 50] {
        select.set_page_size(size);
        let (mut pages, mut all, mut state) = (Vec::new(), Vec::new(), PagingState::start());
        loop {
            let (result, next) = session.execute_single_page(&select, (1,), state).await?;
            let page = rows(result)?;
            pages.push(page.len());
            all.extend(page);
            match next.into_paging_control_flow() {
                ControlFlow::Continue(next) => state = next,
                ControlFlow::Break(()) => break,
            }
        }
        let mut scan = Statement::new("SELECT pk, ck FROM pages");
        scan.set_page_size(size);
        let scanned = rows(session.query_unpaged(scan, ()).await?)?;
        say(
            "paging",
            json!({"size": size, "pages": pages, "rows": all, "scanned": scanned}),
        )?;
    }
    Ok(())
}

/// Prepared statements and simple ones (those without values) in the same batch.
pub(crate) async fn batches(session: &Session) -> Outcome {
    let insert = session
        .prepare("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)")
        .await?;
    for (kind, pk) in [(BatchType::Logged, 100), (BatchType::Unlogged, 101)] {
        let mut batch = Batch::new(kind);
        batch.append_statement(insert.clone());
        batch.append_statement(
            format!("INSERT INTO pages (pk, ck, v) VALUES ({pk}, 2, 'simple')").as_str(),
        );
        batch.append_statement(insert.clone());
        session
            .batch(
                &batch,
                ((pk, 1, Some("prepared")), (), (pk, 3, None::<&str>)),
            )
            .await?;
        say(
            "batch",
            json!({"pk": pk, "rows": query(session, &format!("SELECT * FROM pages WHERE pk = {pk}")).await?}),
        )?;
    }
    let mut batch = Batch::new(BatchType::Counter);
    batch.append_statement(
        session
            .prepare("UPDATE counts SET n = n + ? WHERE k = ?")
            .await?,
    );
    batch.append_statement("UPDATE counts SET n = n - 2 WHERE k = 'b'");
    session
        .batch(&batch, ((CqlValue::Counter(Counter(5)), "a"), ()))
        .await?;
    say(
        "batch",
        json!({"kind": "counter", "rows": query(session, "SELECT * FROM counts").await?}),
    )
}

/// Three rows of every type: ordinary values, nulls, and empty or extreme values.
pub(crate) async fn types(session: &Session, s: &Settings) -> Outcome {
    let names: Vec<&str> = s.schema[4]
        .split([' ', '('])
        .filter(|word| word.starts_with("c_"))
        .collect();
    let marks = vec!["?"; names.len()].join(", ");
    let insert = session
        .prepare(format!(
            "INSERT INTO kinds (id, {}) VALUES (?, {marks})",
            names.join(", ")
        ))
        .await?;
    let select = session.prepare("SELECT * FROM kinds WHERE id = ?").await?;
    let some = |values: Vec<CqlValue>| values.into_iter().map(Some).collect::<Vec<_>>();
    let values = [
        some(kinds::ordinary(&s.keyspace)?),
        vec![None; names.len()],
        some(kinds::extreme(&s.keyspace)?),
    ];
    for (id, values) in (0..).zip(values) {
        let bound: Vec<Option<CqlValue>> = std::iter::once(Some(CqlValue::Int(id)))
            .chain(values)
            .collect();
        session.execute_unpaged(&insert, bound).await?;
        let row = rows(session.execute_unpaged(&select, (id,)).await?)?;
        let text = query(
            session,
            &format!("SELECT JSON * FROM kinds WHERE id = {id}"),
        )
        .await?;
        say("types", json!({"row": row, "json": text}))?;
    }
    if s.schema.iter().any(|line| line.contains("vector<")) {
        let insert = session
            .prepare("INSERT INTO vectors (id, v) VALUES (?, ?)")
            .await?;
        session
            .execute_unpaged(&insert, (1, vec![1.5f32, -2.25, 0.0]))
            .await?;
        say(
            "vector",
            json!({"rows": query(session, "SELECT * FROM vectors").await?}),
        )?;
    }
    Ok(())
}

pub(crate) async fn extras(session: &Session) -> Outcome {
    let mut traced = Statement::new("SELECT v FROM pairs WHERE k = 1");
    traced.set_tracing(true);
    let result = session.query_unpaged(traced, ()).await?;
    let id = result.tracing_id().ok_or("no trace id")?;
    let info = session.get_tracing_info(&id).await?;
    let asked = info
        .parameters
        .as_ref()
        .and_then(|p| p.get("query").cloned());
    say(
        "tracing",
        json!({"rows": rows(result)?, "request": info.request, "query": asked, "has_events": !info.events.is_empty()}),
    )?;
    let insert = session
        .prepare("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)")
        .await?;
    let mut wide = Batch::new(BatchType::Unlogged);
    let values: Vec<(i32, i32, &str)> = (1000..1020).map(|pk| (pk, 0, "wide")).collect();
    values
        .iter()
        .for_each(|_| wide.append_statement(insert.clone()));
    let result = session.batch(&wide, values).await?;
    say(
        "warning",
        json!({"of": "batch", "warnings": result.warnings().collect::<Vec<_>>()}),
    )?;
    let result = session
        .query_unpaged("SELECT count(*) FROM pairs", ())
        .await?;
    let warnings: Vec<String> = result.warnings().map(str::to_owned).collect();
    say(
        "warning",
        json!({"of": "aggregate", "warnings": warnings, "rows": rows(result)?}),
    )
}

pub(crate) async fn errors(session: &Session, s: &Settings) -> Outcome {
    for (of, text) in [
        ("syntax", "SELEKT nothing"),
        ("unknown table", "SELECT * FROM no_such_table"),
        (
            "unknown keyspace",
            "SELECT * FROM no_such_keyspace_at_all.t",
        ),
        ("table exists", &s.schema[1]),
        ("wrong type", "INSERT INTO pairs (k, v) VALUES ('text', 1)"),
    ] {
        let error = session.query_unpaged(text, ()).await.err();
        say(
            "error",
            json!({"of": of, "message": error.map(|e| e.to_string())}),
        )?;
    }
    let error = session
        .prepare("SELECT * FROM no_such_table WHERE k = ?")
        .await
        .err();
    say(
        "error",
        json!({"of": "unknown table prepared", "message": error.map(|e| e.to_string())}),
    )
}

pub(crate) async fn lwt(session: &Session) -> Outcome {
    let insert = session
        .prepare("INSERT INTO pairs (k, v) VALUES (?, ?) IF NOT EXISTS")
        .await?;
    for value in ["first", "second"] {
        say(
            "lwt",
            json!({"rows": rows(session.execute_unpaged(&insert, (500, value)).await?)?}),
        )?;
    }
    say(
        "lwt",
        json!({"rows": query(session, "UPDATE pairs SET v = 'third' WHERE k = 500 IF v = 'first'").await?}),
    )
}

/// The first session re-reads a keyspace when an event names it; the other one makes the changes.
pub(crate) async fn events(session: &Session, other: &Session, s: &Settings) -> Outcome {
    let mut seen = Vec::new();
    for (change, wanted) in [
        ("CREATE TABLE event_seen (k int PRIMARY KEY)", Some(1)),
        ("ALTER TABLE event_seen ADD extra text", Some(2)),
        ("DROP TABLE event_seen", None),
    ] {
        other.query_unpaged(change, ()).await?;
        let columns = || {
            session
                .get_cluster_state()
                .get_keyspace(&s.keyspace)?
                .tables
                .get("event_seen")
                .map(|t| t.columns.len())
        };
        for _ in 0..400 {
            if columns() == wanted {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        seen.push(json!([change, columns() == wanted]));
    }
    say("events", json!({"seen": seen}))
}

pub(crate) async fn spread(session: &Session) -> Outcome {
    let select = session.prepare("SELECT v FROM pairs WHERE k = ?").await?;
    let mut answered = BTreeMap::<String, u32>::new();
    for k in 0..60 {
        let result = session.execute_unpaged(&select, (k,)).await?;
        *answered
            .entry(
                result
                    .request_coordinator()
                    .connection_address()
                    .ip()
                    .to_string(),
            )
            .or_default() += 1;
    }
    say("spread", json!({"topology": true, "answered": answered}))
}

/// One node, one data connection, every request in flight at once.
pub(crate) async fn concurrent(s: &Settings) -> Outcome {
    let only: Vec<SocketAddr> = vec![s.contacts[0].parse()?];
    let session = builder(s, 1)
        .host_filter(Arc::new(AllowListHostFilter::new(only)?))
        .use_keyspace(&s.keyspace, false);
    let session = Arc::new(session.build().await?);
    let insert = session
        .prepare("INSERT INTO pairs (k, v) VALUES (?, ?)")
        .await?;
    let select = session.prepare("SELECT v FROM pairs WHERE k = ?").await?;
    let mut writes = tokio::task::JoinSet::new();
    for k in 10_000..10_000 + s.concurrent {
        let (session, insert) = (session.clone(), insert.clone());
        writes.spawn(async move {
            session
                .execute_unpaged(&insert, (k, format!("many {k}")))
                .await
                .is_ok()
        });
    }
    let written = writes.join_all().await.into_iter().filter(|ok| *ok).count();
    let mut reads = tokio::task::JoinSet::new();
    for k in 10_000..10_000 + s.concurrent {
        let (session, select) = (session.clone(), select.clone());
        reads.spawn(async move {
            let result = session
                .execute_unpaged(&select, (k,))
                .await
                .ok()?
                .into_rows_result()
                .ok()?;
            let (value,) = result.single_row::<(String,)>().ok()?;
            (value == format!("many {k}")).then_some(())
        });
    }
    let right = reads.join_all().await.into_iter().flatten().count();
    say(
        "concurrent",
        json!({"requests": s.concurrent, "written": written, "right": right}),
    )
}
