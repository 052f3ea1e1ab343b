//! Compares two configurations for SIGHUP: some settings take effect at once, the others after a restart.

use std::collections::BTreeSet;

use super::{Config, Control};
use crate::watched::WatchedTable;

/// The names of the settings that differ: `(reloadable, needs_restart)`. The content of TLS files may have changed
/// under the same names, so a reload reads those files again in any case.
pub fn changed_without_restart(old: &Config, new: &Config) -> (Vec<String>, Vec<String>) {
    let mut changes = Changes::default();
    compare_client(&mut changes, old, new);
    compare_upstream(&mut changes, old, new);
    compare_rest(&mut changes, old, new);
    compare_control(&mut changes, &old.control, &new.control);
    changes.restart("redis", &old.redis, &new.redis);
    changes.restart("pipeline", &old.pipeline, &new.pipeline);
    compare_tables(&mut changes, &old.tables, &new.tables);
    (changes.reloadable, changes.needs_restart)
}

/// The running configuration, with the reloadable settings taken from a fresh one.
pub fn with_reloadable(running: &Config, fresh: &Config) -> Config {
    let mut taken = running.clone();
    taken.log.level.clone_from(&fresh.log.level);
    taken.limits.connections = fresh.limits.connections;
    taken.limits.idle_timeout = fresh.limits.idle_timeout;
    taken.limits.drain_timeout = fresh.limits.drain_timeout;
    if let (Some(taken), Some(fresh)) = (&mut taken.client.tls, &fresh.client.tls) {
        taken.clone_from(fresh);
    }
    if let (Some(taken), Some(fresh)) = (&mut taken.upstream.tls, &fresh.upstream.tls) {
        taken.ca.clone_from(&fresh.ca);
        // All clients share the identity of this certificate, so it is reloaded only if shared_identity is in force;
        // switching that on needs a restart.
        if running.upstream.shared_identity {
            taken
                .certificate_and_key
                .clone_from(&fresh.certificate_and_key);
        }
    }
    taken
}

#[derive(Default)]
struct Changes {
    reloadable: Vec<String>,
    needs_restart: Vec<String>,
}

impl Changes {
    fn reload<T: PartialEq>(&mut self, name: &str, old: &T, new: &T) {
        if old != new {
            self.reloadable.push(name.to_owned());
        }
    }

    fn restart<T: PartialEq>(&mut self, name: &str, old: &T, new: &T) {
        if old != new {
            self.needs_restart.push(name.to_owned());
        }
    }
}

/// The names of TLS files are reloadable; switching TLS on or off needs a restart.
fn compare_client(changes: &mut Changes, old: &Config, new: &Config) {
    let (old, new) = (&old.client, &new.client);
    changes.restart("client.listen", &old.listen, &new.listen);
    match (&old.tls, &new.tls) {
        (Some(old), Some(new)) => {
            changes.reload("client.tls_certificate", &old.certificate, &new.certificate);
            changes.reload("client.tls_key", &old.key, &new.key);
            changes.reload("client.tls_client_ca", &old.client_ca, &new.client_ca);
        }
        (old, new) => changes.restart("client.tls_certificate", &old.is_some(), &new.is_some()),
    }
}

fn compare_upstream(changes: &mut Changes, old: &Config, new: &Config) {
    let (old, new) = (&old.upstream, &new.upstream);
    changes.restart(
        "upstream.contact_points",
        &old.contact_points,
        &new.contact_points,
    );
    changes.restart("upstream.data_center", &old.data_center, &new.data_center);
    let username = |upstream: &super::Upstream| {
        upstream
            .credentials
            .clone()
            .map(|credentials| credentials.username)
    };
    let password = |upstream: &super::Upstream| {
        upstream
            .credentials
            .clone()
            .map(|credentials| credentials.password)
    };
    changes.restart("upstream.username", &username(old), &username(new));
    changes.restart("upstream.password", &password(old), &password(new));
    changes.restart(
        "upstream.connect_timeout",
        &old.connect_timeout,
        &new.connect_timeout,
    );
    changes.restart(
        "upstream.shared_identity",
        &old.shared_identity,
        &new.shared_identity,
    );
    match (&old.tls, &new.tls) {
        (Some(old), Some(new)) => {
            let (old_pair, new_pair) = (
                old.certificate_and_key.clone().unzip(),
                new.certificate_and_key.clone().unzip(),
            );
            changes.reload("upstream.tls_ca", &old.ca, &new.ca);
            changes.reload("upstream.tls_certificate", &old_pair.0, &new_pair.0);
            changes.reload("upstream.tls_key", &old_pair.1, &new_pair.1);
            changes.restart(
                "upstream.tls_verify_hostname",
                &old.verify_hostname,
                &new.verify_hostname,
            );
        }
        (old, new) => changes.restart("upstream.tls", &old.is_some(), &new.is_some()),
    }
}

fn compare_rest(changes: &mut Changes, old: &Config, new: &Config) {
    changes.restart("topology.mode", &old.topology.mode, &new.topology.mode);
    changes.restart(
        "topology.advertise",
        &old.topology.advertise,
        &new.topology.advertise,
    );
    changes.restart(
        "topology.network",
        &old.topology.network,
        &new.topology.network,
    );
    let (was, is) = (&old.limits, &new.limits);
    changes.reload("limits.connections", &was.connections, &is.connections);
    changes.restart(
        "limits.request_bytes",
        &was.request_bytes,
        &is.request_bytes,
    );
    changes.restart(
        "limits.prepared_statements",
        &was.prepared_statements,
        &is.prepared_statements,
    );
    changes.restart(
        "limits.max_page_bytes",
        &was.max_page_bytes,
        &is.max_page_bytes,
    );
    changes.restart(
        "limits.split_read_bytes",
        &was.split_read_bytes,
        &is.split_read_bytes,
    );
    changes.reload("limits.idle_timeout", &was.idle_timeout, &is.idle_timeout);
    changes.restart(
        "limits.handshake_timeout",
        &was.handshake_timeout,
        &is.handshake_timeout,
    );
    changes.reload(
        "limits.drain_timeout",
        &was.drain_timeout,
        &is.drain_timeout,
    );
    let agreement = (&was.schema_agreement_timeout, &is.schema_agreement_timeout);
    changes.restart("limits.schema_agreement_timeout", agreement.0, agreement.1);
    changes.restart("admin.listen", &old.admin.listen, &new.admin.listen);
    changes.reload("log.level", &old.log.level, &new.log.level);
    changes.restart("log.format", &old.log.format, &new.log.format);
    changes.restart(
        "runtime.threads",
        &old.runtime.threads,
        &new.runtime.threads,
    );
}

fn compare_control(changes: &mut Changes, old: &Control, new: &Control) {
    changes.restart("control.enabled", &old.enabled, &new.enabled);
    changes.restart("control.keyspace", &old.keyspace, &new.keyspace);
    changes.restart("control.replication", &old.replication, &new.replication);
    changes.restart("control.apply_schema", &old.apply_schema, &new.apply_schema);
    changes.restart(
        "control.poll_interval",
        &old.poll_interval,
        &new.poll_interval,
    );
    changes.restart(
        "control.max_staleness",
        &old.max_staleness,
        &new.max_staleness,
    );
    let cache = (&old.layout_cache_bytes, &new.layout_cache_bytes);
    changes.restart("control.layout_cache_bytes", cache.0, cache.1);
    let few = (&old.min_filter_keys, &new.min_filter_keys);
    changes.restart("control.min_filter_keys", few.0, few.1);
    let directory = (&old.snapshot_directory, &new.snapshot_directory);
    changes.restart("control.snapshot_directory", directory.0, directory.1);
}

/// Compares entries by name, because their order has no meaning.
fn compare_tables(changes: &mut Changes, old: &[WatchedTable], new: &[WatchedTable]) {
    let names: BTreeSet<_> = old.iter().chain(new).map(|table| &table.name).collect();
    for name in names {
        let entry =
            |tables: &[WatchedTable]| tables.iter().find(|table| table.name == *name).cloned();
        changes.restart(&format!("table {name}"), &entry(old), &entry(new));
    }
}
