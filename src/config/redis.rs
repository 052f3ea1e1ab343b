//! `[redis]`: its defaults and the rules between its settings. Without `address` there is no Redis.

use std::time::Duration;

use super::reader::{Reader, Section};
use super::sections::{WAIT_MAX, tls_towards};
use super::{RedisSettings, Secret, values};

const TIMEOUT: Duration = Duration::from_millis(20);
const ENTRY_TTL: Duration = Duration::from_secs(24 * 3600);

/// Entries are kept for days; a year is as good as forever.
const ENTRY_TTL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

pub(super) fn read(reader: &mut Reader) -> Option<RedisSettings> {
    let written = reader.has_section("redis");
    let mut section = reader.section("redis");
    let address = section.optional("address", values::redis_address);
    let (username, password) = login(&mut section);
    let mut database = 0;
    section.set("database", &mut database, values::count(0..=1_000_000));
    let mut timeout = TIMEOUT;
    let millisecond = Duration::from_millis(1);
    section.set(
        "timeout",
        &mut timeout,
        values::duration(millisecond..=WAIT_MAX),
    );
    let mut entry_ttl = ENTRY_TTL;
    let second = Duration::from_secs(1);
    section.set(
        "entry_ttl",
        &mut entry_ttl,
        values::whole_seconds(second..=ENTRY_TTL_MAX),
    );
    let tls = tls_towards(&mut section);
    if written && !section.has("address") {
        section.mistake("address", "is missing; add it, or remove the section");
    }
    let address = address?;
    Some(RedisSettings {
        host: address.host,
        port: address.port,
        username,
        password,
        database,
        tls,
        timeout,
        entry_ttl,
    })
}

/// A password without a username is valid: it is that of the default user.
fn login(section: &mut Section<'_>) -> (Option<String>, Option<Secret>) {
    let username = section.optional("username", values::text);
    let password = section.optional("password", values::secret);
    let from_file = section.optional("password_file", values::password_file);
    match (section.has("password"), section.has("password_file")) {
        (true, true) => section.mistake(
            "password_file",
            "is set together with redis.password; keep one of them",
        ),
        (false, false) if section.has("username") => section.mistake(
            "username",
            "has no password; add redis.password_file or redis.password",
        ),
        _ => {}
    }
    (username, password.or(from_file))
}
