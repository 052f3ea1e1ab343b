//! Requests to the originals, for commands that read them: as a worker makes them, with its throttle.

use std::rc::Rc;
use std::sync::Arc;

use super::SplitsError;
use crate::config::Config;
use crate::pipeline::original::requests::Requests;
use crate::pipeline::original::throttle::Throttle;
use crate::tls;
use crate::upstream::balance::Balance;
use crate::upstream::dial::Dialer;
use crate::upstream::pool::{Pool, PoolConfig};
use crate::wide_row::store::connect::{self, ConnectError};

/// On connections of our own, which live on the `LocalSet` that calls this.
pub(super) async fn requests(config: &Config) -> Result<Requests, SplitsError> {
    let upstream = &config.upstream;
    let tls = upstream.tls.as_ref().map(tls::load_upstream).transpose();
    let tls = tls.map_err(ConnectError::from)?;
    let balance = Arc::new(Balance::default());
    let cluster = connect::look(upstream, tls.clone()).await?;
    balance.set_cluster(Arc::new(cluster));
    let dialer = Dialer::new(upstream.connect_timeout, tls);
    let credentials = upstream.credentials.clone();
    let pool = PoolConfig::new(dialer, credentials, balance, Arc::default());
    let pool = Rc::new(Pool::new(Arc::new(pool)));
    let pipeline = &config.pipeline;
    let throttle = Throttle::new(pipeline.throttle, pipeline.bytes_per_second);
    Ok(Requests::new(pool, Rc::new(throttle)))
}
