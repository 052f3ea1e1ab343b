//! Whole configurations in, settings or mistakes out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;

mod control;

/// A file below `target/`, for settings that name files; every test uses names of its own.
fn file(name: &str, content: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/config-tests");
    let path = directory.join(name);
    let directory = path.parent().expect("is below target/");
    std::fs::create_dir_all(directory).expect("target/ is writable");
    std::fs::write(&path, content).expect("target/ is writable");
    path
}

fn load(name: &str, toml: &str, variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let path = file(name, toml);
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load(Some(&path), variables)
        .map_err(|mistakes| mistakes.to_string().lines().map(str::to_owned).collect())
}

fn mistakes(name: &str, toml: &str, variables: &[(&str, &str)]) -> Vec<String> {
    load(name, toml, variables).expect_err("the configuration is wrong")
}

#[test]
fn documented_file_equals_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docker/narrows.toml");
    let documented =
        Config::load(Some(&path), std::iter::empty()).expect("the documented file is right");
    assert_eq!(documented, Config::default());
    assert_eq!(
        Config::load(None, std::iter::empty()).expect("defaults are right"),
        Config::default()
    );
}

#[test]
fn documented_file_names_every_setting() {
    let text = include_str!("../../docker/narrows.toml");
    let mut reader = reader::Reader::default();
    // The settings of an entry are asked for once there is one.
    let entry = file("one-table.toml", "[[table]]\n");
    reader.read_file(&entry).expect("is TOML");
    sections::read(&mut reader);
    for key in reader.known_keys() {
        let mentioned = text.lines().any(|line| {
            line.trim_start_matches("# ")
                .starts_with(&format!("{key} = "))
        });
        assert!(mentioned, "{key} is not in docker/narrows.toml");
    }
}

#[test]
fn variables_win_over_the_file_and_are_read_by_kind() {
    let toml = "[limits]\nconnections = 5\n[upstream]\nconnect_timeout = \"1s\"\n";
    let config = load(
        "variables.toml",
        toml,
        &[
            ("NARROWS__LIMITS__CONNECTIONS", "7"),
            ("NARROWS__LIMITS__REQUEST_BYTES", "65536"),
            ("NARROWS__LIMITS__IDLE_TIMEOUT", "1s"),
            (
                "NARROWS__UPSTREAM__CONTACT_POINTS",
                "one, two:9999,[::1]:9043, [::2]",
            ),
            ("NARROWS__UPSTREAM__TLS_VERIFY_HOSTNAME", "false"),
            ("NARROWS_UNRELATED", "ignored"),
            ("PATH", "ignored"),
        ],
    )
    .expect("all is right");
    assert_eq!(config.limits.connections, 7);
    assert_eq!(config.limits.request_bytes, 65_536);
    assert_eq!(config.limits.idle_timeout, Duration::from_secs(1));
    assert_eq!(config.upstream.connect_timeout, Duration::from_secs(1));
    let shown: Vec<String> = config
        .upstream
        .contact_points
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(shown, ["one:9042", "two:9999", "[::1]:9043", "[::2]:9042"]);
}

#[test]
fn every_mistake_is_reported_at_once() {
    let toml = "[client]\nlisten = \"localhost\"\n[limits]\nconections = 1\nidle_timeout = 5\n[limit]\nx = 1\n[zebra]\n";
    let found = mistakes(
        "many.toml",
        toml,
        &[
            ("NARROWS__LOG__LEVEL", "inof"),
            ("NARROWS__LGO__LEVEL", "info"),
        ],
    );
    let expect_start = [
        "client.listen = \"localhost\": expected an address with a port",
        "limits.idle_timeout = 5: expected a duration such as \"500ms\"",
        "log.level = \"inof\": expected off, error,",
        "NARROWS__LGO__LEVEL: is not a setting; did you mean NARROWS__LOG__LEVEL?",
        "[limit]: unknown section; did you mean [limits]?",
        "limits.conections: unknown setting; did you mean connections?",
        "[zebra]: unknown section; known names are admin, client,",
    ];
    assert_eq!(found.len(), expect_start.len(), "{found:#?}");
    for (line, start) in found.iter().zip(expect_start) {
        assert!(line.starts_with(start), "{line}");
    }
    assert!(
        found[2].ends_with("(set by NARROWS__LOG__LEVEL)"),
        "{}",
        found[2]
    );
}

#[test]
fn wrong_values_say_what_is_expected() {
    for (index, (toml, expected)) in [
        ("listen = 1", "listen: is outside of any section"),
        (
            "[[tabel]]\nname = \"x\"",
            "[[tabel]]: unknown section; did you mean [[table]]?",
        ),
        (
            "[tabel]\nname = \"x\"",
            "[tabel]: unknown section; did you mean [[table]]?",
        ),
        (
            "[table]\nname = \"a.b\"",
            "[table]: there may be several; write [[table]]",
        ),
        (
            "[[client]]\nlisten = \"127.0.0.1:1\"",
            "[[client]]: there is only one; write [client]",
        ),
        (
            "table = [1]",
            "table[1]: expected settings below a [[table]] header",
        ),
        (
            "[client]\nlisten = 9142",
            "client.listen = 9142: expected an address",
        ),
        (
            "[upstream]\ncontact_points = []",
            "upstream.contact_points = []: expected a list",
        ),
        (
            "[upstream]\ncontact_points = [\"::1\"]",
            "[\"::1\"]: \"::1\" is not a host",
        ),
        (
            "[upstream]\ncontact_points = [\"a:0\"]",
            "\"a:0\" is not a host",
        ),
        (
            "[upstream]\ncontact_points = [\"[::1]9042\"]",
            "is not a host",
        ),
        ("[upstream]\ndata_center = \"\"", "is empty; remove it"),
        (
            "[upstream]\ntls = \"true\"",
            "upstream.tls = \"true\": expected true or false",
        ),
        (
            "[topology]\nmode = \"both\"",
            "expected \"single\" or \"mirror\"",
        ),
        (
            "[topology]\nnetwork = \"127.0.0.1/8\"",
            "did you mean 127.0.0.0/8?",
        ),
        (
            "[topology]\nnetwork = \"127.0.0.0/31\"",
            "a prefix from 8 to 30",
        ),
        (
            "[topology]\nadvertise = \"0.0.0.0:9142\"",
            "that drivers can connect to",
        ),
        (
            "[topology]\nmode = \"mirror\"\nadvertise = \"127.0.0.1:1\"",
            "\"single\" only",
        ),
        (
            "[topology]\nmode = \"mirror\"\n[client]\nlisten = \"127.0.0.1:0\"",
            "one fixed port",
        ),
        ("[limits]\nconnections = 0", "a whole number from 1 to"),
        ("[limits]\nconnections = -1", "a whole number from 1 to"),
        ("[limits]\nconnections = \"5\"", "a whole number from 1 to"),
        ("[limits]\nrequest_bytes = \"1GiB\"", "from 4KiB to 256MiB"),
        ("[limits]\nidle_timeout = \"999ms\"", "from 1s to 7d"),
        (
            "[admin]\nlisten = \"127.0.0.1:9142\"",
            "client.listen is 127.0.0.1:9142 too",
        ),
        ("[log]\nformat = \"text\"", "expected \"human\" or \"json\""),
        (
            "[log]\nlevel = \"info,narrows=loud\"",
            "expected off, error",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let found = mistakes(&format!("wrong-{index}.toml"), toml, &[]);
        assert_eq!(found.len(), 1, "{toml}: {found:#?}");
        assert!(found[0].contains(expected), "{toml}: {}", found[0]);
    }
}

#[test]
fn secrets_are_never_shown() {
    let password = file("password", "hunter2\n");
    let toml = format!("[upstream]\nusername = \"u\"\npassword_file = {password:?}\n");
    let config = load("secret.toml", &toml, &[]).expect("all is right");
    let credentials = config
        .upstream
        .credentials
        .clone()
        .expect("credentials are set");
    assert_eq!(credentials.password.expose(), "hunter2");
    assert!(!format!("{config:?}").contains("hunter2"));

    for (name, toml) in [
        ("syntax.toml", "[upstream]\npassword = \"hunter2"),
        (
            "kind.toml",
            "[upstream]\nusername = \"u\"\npassword = [\"hunter2\"]",
        ),
        ("spelling.toml", "[upstream]\npasword = \"hunter2\""),
        ("alone.toml", "[upstream]\npassword = \"hunter2\""),
    ] {
        let found = mistakes(name, toml, &[("NARROWS__UPSTREAM__PASWORD", "hunter2")]);
        assert!(!found.join("\n").contains("hunter2"), "{found:#?}");
    }
}

#[test]
fn credentials_are_complete_and_unambiguous() {
    let password = file("password-2", "x");
    let two_lines = file("password-3", "x\ny\n");
    let long = file("password-4", &"x".repeat(4097));
    for (index, (toml, expected)) in [
        (
            "username = \"u\"".to_owned(),
            "upstream.username = \"u\": has no password",
        ),
        (
            format!("password_file = {password:?}"),
            "upstream.username: is missing",
        ),
        (
            format!("username = \"u\"\npassword = \"p\"\npassword_file = {password:?}"),
            "keep one of them",
        ),
        (
            "username = \"u\"\npassword_file = \"/none\"".to_owned(),
            "cannot be read",
        ),
        (
            format!("username = \"u\"\npassword_file = {two_lines:?}"),
            "on one line",
        ),
        (
            format!("username = \"u\"\npassword_file = {long:?}"),
            "is longer than 4096 bytes",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let found = mistakes(
            &format!("credentials-{index}.toml"),
            &format!("[upstream]\n{toml}"),
            &[],
        );
        assert_eq!(found.len(), 1, "{toml}: {found:#?}");
        assert!(found[0].contains(expected), "{toml}: {}", found[0]);
    }
}

#[test]
fn tls_files_exist_and_come_in_pairs() {
    let pem = file("some.pem", "");
    for (index, (toml, expected)) in [
        (format!("[client]\ntls_certificate = {pem:?}"), "client.tls_key: is missing"),
        (format!("[client]\ntls_key = {pem:?}"), "client.tls_certificate: is missing"),
        (format!("[client]\ntls_client_ca = {pem:?}"), "needs client.tls_certificate"),
        (format!("[client]\ntls_key = {pem:?}\ntls_certificate = \"/none\""), "cannot be read"),
        (format!("[client]\ntls_key = {pem:?}\ntls_certificate = \"/\""), "is a directory"),
        ("[upstream]\ntls = true".to_owned(), "upstream.tls_ca: is required"),
        (format!("[upstream]\ntls_ca = {pem:?}"), "no effect while upstream.tls is off"),
        (
            format!("[upstream]\ntls = true\ntls_ca = {pem:?}\ntls_certificate = {pem:?}\ntls_key = {pem:?}"),
            "every client the proxy's identity",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let found = mistakes(&format!("tls-{index}.toml"), &toml, &[]);
        assert_eq!(found.len(), 1, "{toml}: {found:#?}");
        assert!(found[0].contains(expected), "{toml}: {}", found[0]);
    }
    let toml = format!(
        "[upstream]\ntls = true\ntls_ca = {pem:?}\ntls_certificate = {pem:?}\ntls_key = {pem:?}\nshared_identity = true"
    );
    let tls = load("tls-right.toml", &toml, &[])
        .expect("all is right")
        .upstream
        .tls
        .expect("TLS is on");
    assert_eq!(tls.certificate_and_key, Some((pem.clone(), pem)));
}

#[test]
fn missing_and_broken_files_are_named() {
    let missing = Config::load(Some(Path::new("/none.toml")), std::iter::empty())
        .expect_err("there is no such file");
    assert!(
        missing
            .to_string()
            .starts_with("/none.toml: cannot be read"),
        "{missing}"
    );
    let found = mistakes("broken.toml", "[client]\nlisten = \n", &[]);
    assert!(
        found[0].contains("broken.toml line 2: is not valid TOML"),
        "{found:?}"
    );
}

#[test]
fn mirrors_host_bits_into_the_network() {
    let loopback = Topology::default().network;
    assert_eq!(
        loopback.mirror(Ipv4Addr::new(10, 1, 2, 3)),
        Ipv4Addr::new(127, 1, 2, 3)
    );
    let narrow = Network {
        address: Ipv4Addr::new(192, 168, 7, 0),
        prefix_len: 24,
    };
    assert_eq!(
        narrow.mirror(Ipv4Addr::new(10, 1, 2, 3)),
        Ipv4Addr::new(192, 168, 7, 3)
    );
}

#[test]
fn says_what_needs_a_restart() {
    let old = Config::default();
    assert_eq!(changed_without_restart(&old, &old), (vec![], vec![]));
    let mut new = old.clone();
    new.log.level = "debug".to_owned();
    new.limits.idle_timeout = Duration::from_secs(1);
    new.limits.request_bytes = 1 << 20;
    let password = Secret::new("p");
    new.upstream.credentials = Some(Credentials {
        username: "u".to_owned(),
        password,
    });
    let (reloadable, needs_restart) = changed_without_restart(&old, &new);
    assert_eq!(reloadable, ["limits.idle_timeout", "log.level"]);
    assert_eq!(
        needs_restart,
        [
            "upstream.username",
            "upstream.password",
            "limits.request_bytes"
        ]
    );
}

#[test]
fn tls_files_are_reloadable_but_tls_itself_is_not() {
    let tls = |certificate: &str| ClientSideTls {
        certificate: certificate.into(),
        key: "key".into(),
        client_ca: None,
    };
    let config = |tls| Config {
        client: Client {
            tls,
            ..Client::default()
        },
        ..Config::default()
    };
    let one = config(Some(tls("one")));
    let name = vec!["client.tls_certificate".to_owned()];
    assert_eq!(
        changed_without_restart(&one, &config(Some(tls("two")))),
        (name.clone(), vec![])
    );
    assert_eq!(changed_without_restart(&one, &config(None)), (vec![], name));
}
