//! A session of a real driver for what tests ask of the control keyspace. As the product's own it asks a second node when the
//! first is slow to answer a read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;

/// Of its own for each caller: it lives on the runtime that calls this.
pub(crate) async fn session(nodes: &[SocketAddr]) -> Arc<Session> {
    let second_node = SimpleSpeculativeExecutionPolicy {
        max_retry_count: 1,
        retry_interval: Duration::from_millis(150),
    };
    let profile = ExecutionProfile::builder()
        .speculative_execution_policy(Some(Arc::new(second_node)))
        .build();
    let builder = SessionBuilder::new()
        .known_nodes_addr(nodes)
        // Tables of other tests may have types that this driver does not know.
        .fetch_schema_metadata(false)
        .default_execution_profile_handle(profile.into_handle());
    Arc::new(builder.build().await.expect("the cluster answers"))
}
