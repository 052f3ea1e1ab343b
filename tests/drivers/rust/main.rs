//! The driver scenario with crate `scylla`: one JSON line a step (see ../README.md).
//! The driver speaks protocol v4 only and offers no custom payload.

use std::error::Error;
use std::io::Write;
use std::num::NonZeroUsize;
use std::time::Duration;
use std::{env, fs};

use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::frame::Compression;
use serde_json::{Value, json};

mod kinds;
mod steps;
mod wide;

use steps::*;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

struct Settings {
    contacts: Vec<String>,
    data_center: String,
    keyspace: String,
    compression: Option<Compression>,
    concurrent: i32,
    schema: Vec<String>,
}

fn settings() -> Outcome<Settings> {
    let vector = env::var("DRIVER_VECTOR").as_deref() != Ok("0");
    let schema = fs::read_to_string(env::var("DRIVER_SCHEMA")?)?;
    let wanted = |line: &&str| line.starts_with("CREATE") && (vector || !line.contains("vector<"));
    Ok(Settings {
        contacts: env::var("DRIVER_CONTACTS")?
            .split(',')
            .map(str::to_owned)
            .collect(),
        data_center: env::var("DRIVER_DC")?,
        keyspace: env::var("DRIVER_KEYSPACE")?,
        compression: match env::var("DRIVER_COMPRESSION").as_deref() {
            Ok("lz4") => Some(Compression::Lz4),
            Ok("snappy") => Some(Compression::Snappy),
            _ => None,
        },
        concurrent: env::var("DRIVER_CONCURRENT").map_or(Ok(5000), |n| n.parse())?,
        schema: schema.lines().filter(wanted).map(str::to_owned).collect(),
    })
}

fn say(step: &str, mut facts: Value) -> Outcome {
    facts["step"] = json!(step);
    writeln!(std::io::stdout(), "{facts}")?;
    Ok(())
}

fn builder(s: &Settings, connections: usize) -> SessionBuilder {
    let profile = ExecutionProfile::builder().request_timeout(Some(Duration::from_secs(60)));
    let size = NonZeroUsize::new(connections).expect("a pool has a connection");
    SessionBuilder::new()
        .known_nodes(&s.contacts)
        .prefer_datacenter(s.data_center.clone())
        .compression(s.compression)
        .pool_size(PoolSize::PerHost(size))
        .connection_timeout(Duration::from_secs(15))
        .schema_agreement_timeout(Duration::from_secs(30))
        // At each tick the driver re-reads the keyspaces that events have named, and nothing else.
        .cluster_metadata_refresh_interval(Duration::from_millis(200))
        .tracing_info_fetch_attempts(200.try_into().expect("not zero"))
        .default_execution_profile_handle(profile.build().into_handle())
}

async fn scenario(session: &Session, s: &Settings) -> Outcome {
    let local = query(
        session,
        "SELECT cluster_name, partitioner, release_version FROM system.local",
    )
    .await?;
    say(
        "connect",
        json!({"compression": format!("{:?}", s.compression), "local": local}),
    )?;
    create_schema(session, s).await?;
    let other = builder(s, 1)
        .use_keyspace(&s.keyspace, false)
        .build()
        .await?;
    hosts(session).await?;
    prepare(session, &other).await?;
    paging(session).await?;
    batches(session).await?;
    types(session, s).await?;
    extras(session).await?;
    errors(session, s).await?;
    lwt(session).await?;
    events(session, &other, s).await?;
    spread(session).await?;
    concurrent(s).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let s = settings()?;
    if let Ok(table) = env::var("DRIVER_WIDE") {
        wide::wide(&builder(&s, 1).build().await?, &table).await?;
        return say("end", json!({}));
    }
    let session = builder(&s, 2).build().await?;
    let outcome = scenario(&session, &s).await;
    session
        .query_unpaged(format!("DROP KEYSPACE IF EXISTS {}", s.keyspace), ())
        .await?;
    outcome?;
    say("end", json!({}))
}
