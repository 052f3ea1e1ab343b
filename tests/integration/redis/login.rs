//! Who may ask Redis: passwords, ACL users, certificates on both sides.

use std::path::PathBuf;

use narrows::config::{RedisSettings, Secret, UpstreamTls};
use narrows::known::cache::Tier;
use narrows::known::shared_cache::{Fetched, SharedCacheError};

use super::{Proxy, fresh_id, settings};
use crate::support::certificates::Authority;
use crate::support::eventually;
use crate::support::redis::Redis;

const PASSWORD: &str = "topsecret-password";

/// Layouts get there and back.
fn works(settings: RedisSettings) {
    let proxy = Proxy::new(settings);
    let id = fresh_id();
    eventually("the layout is shared", || {
        (proxy.look_up(&id) == Tier::Shared).then_some(())
    });
    assert_eq!(proxy.shared("failed"), 0);
}

/// The store answers, and the failure says why without a secret.
fn fails(settings: RedisSettings) -> SharedCacheError {
    let proxy = Proxy::new(settings);
    let id = fresh_id();
    assert_eq!(proxy.look_up(&id), Tier::Store);
    assert_eq!(proxy.shared("failed"), 1);
    let Fetched::Failed(error) = proxy.fetch(&id) else {
        panic!("it did not fail");
    };
    let text = format!("{error} {error:?}");
    assert!(!text.contains("topsecret"), "{text}");
    error
}

fn with_login(redis: &Redis, username: Option<&str>, password: Option<&str>) -> RedisSettings {
    RedisSettings {
        username: username.map(str::to_owned),
        password: password.map(Secret::new),
        ..settings(redis.address)
    }
}

#[test]
fn a_password_alone_is_that_of_the_default_user() {
    let redis = Redis::start_with(&format!("requirepass {PASSWORD}"));
    works(with_login(&redis, None, Some(PASSWORD)));
    let wrong = with_login(&redis, None, Some("topsecret-wrong"));
    assert_eq!(fails(wrong), SharedCacheError::Login);
    let none = with_login(&redis, None, None);
    assert_eq!(fails(none), SharedCacheError::Login);
}

#[test]
fn an_acl_user_needs_two_commands_on_our_keys_and_nothing_else() {
    let redis = Redis::start_with(&format!(
        "user default off\n\
         user narrows on >{PASSWORD} ~narrows:v2:* +getrange +set\n\
         user elsewhere on >{PASSWORD} ~other:* +getrange +set"
    ));
    works(with_login(&redis, Some("narrows"), Some(PASSWORD)));
    let wrong = with_login(&redis, Some("narrows"), Some("topsecret-wrong"));
    assert_eq!(fails(wrong), SharedCacheError::Login);
    let elsewhere = with_login(&redis, Some("elsewhere"), Some(PASSWORD));
    assert_eq!(fails(elsewhere), SharedCacheError::NotAllowed);
}

/// A server with TLS whose certificate is for this name, and the authority that signed it.
fn start_with_tls(name: Option<&str>, auth_clients: &str) -> (Redis, Authority) {
    let unstarted = Redis::prepare();
    let authority = Authority::new(unstarted.directory.clone());
    let own_name = format!("IP:{}", unstarted.address.ip());
    authority.sign("server", name.unwrap_or(&own_name));
    let port = unstarted.address.port();
    let redis = unstarted.start(&format!(
        "port 0\ntls-port {port}\ntls-cert-file server.pem\ntls-key-file server.key\n\
         tls-ca-cert-file ca.pem\ntls-auth-clients {auth_clients}"
    ));
    (redis, authority)
}

fn with_tls(redis: &Redis, ca: PathBuf, verify_hostname: bool) -> RedisSettings {
    RedisSettings {
        tls: Some(UpstreamTls {
            ca,
            certificate_and_key: None,
            verify_hostname,
        }),
        ..settings(redis.address)
    }
}

#[test]
fn tls_trusts_the_configured_authority_and_no_other() {
    let (redis, authority) = start_with_tls(None, "no");
    works(with_tls(&redis, authority.certificate(), true));
    let other = Redis::prepare().directory;
    let stranger = Authority::new(other.clone());
    for verify_hostname in [true, false] {
        let error = fails(with_tls(&redis, stranger.certificate(), verify_hostname));
        assert!(matches!(error, SharedCacheError::Tls(_)), "{error}");
    }
    std::fs::remove_dir_all(other).expect("ours");
}

#[test]
fn tls_checks_the_host_name_unless_told_otherwise() {
    let (redis, authority) = start_with_tls(Some("DNS:redis.example"), "no");
    let error = fails(with_tls(&redis, authority.certificate(), true));
    assert!(matches!(error, SharedCacheError::Tls(_)), "{error}");
    works(with_tls(&redis, authority.certificate(), false));
}

#[test]
fn tls_shows_the_client_certificate() {
    let (redis, authority) = start_with_tls(None, "yes");
    let without = with_tls(&redis, authority.certificate(), true);
    let mut with = without.clone();
    let tls = with.tls.as_mut().expect("set above");
    tls.certificate_and_key = Some(authority.sign("client", "DNS:client"));
    works(with);
    let error = fails(without);
    assert_eq!(error, SharedCacheError::Lost);
}

#[test]
fn without_tls_a_server_that_wants_it_is_a_failure() {
    let (redis, _authority) = start_with_tls(None, "no");
    let error = fails(settings(redis.address));
    assert!(
        matches!(error, SharedCacheError::Lost | SharedCacheError::Protocol),
        "{error}"
    );
}
