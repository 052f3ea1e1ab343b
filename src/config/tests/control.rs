//! `[control]`, `[redis]` and `[[table]]`.

use super::*;
use crate::schema::names::TableName;
use crate::watched::{BucketUnit, LateWrites, Mode};

/// The block of the documented file that begins with this commented header, uncommented by one level.
fn documented(header: &str) -> String {
    let text = include_str!("../../../docker/narrows.toml");
    let lines = text
        .lines()
        .skip_while(|line| *line != format!("# {header}"))
        .take_while(|line| !line.is_empty());
    let lines: Vec<&str> = lines.filter_map(|line| line.strip_prefix("# ")).collect();
    assert!(lines.len() > 5, "{header} is not documented");
    lines.join("\n")
}

#[test]
fn documented_table_equals_the_defaults() {
    let config = load("documented-table.toml", &documented("[[table]]"), &[]).expect("right");
    let name = TableName::new("plant", "reading");
    assert_eq!(config.tables, [WatchedTable::new(name)]);
}

/// Those that the comment before `filter` lists, each on a line of its own in front of two spaces.
#[test]
fn every_documented_filter_policy_is_understood() {
    let text = include_str!("../../../docker/narrows.toml");
    let policies = text.lines().filter_map(|line| {
        let (policy, _) = line.strip_prefix("# #   ")?.split_once("  ")?;
        Some(policy.to_owned())
    });
    let policies: Vec<String> = policies.collect();
    assert_eq!(policies.len(), 5, "{policies:?}");
    for (number, policy) in policies.iter().enumerate() {
        let toml = format!("[[table]]\nname = \"a.b\"\nfilter = [\"{policy}\"]");
        let config = load(&format!("policy-{number}.toml"), &toml, &[]).expect("right");
        assert_eq!(config.tables[0].filter, [policy.as_str()]);
    }
    for setting in [
        "fuse16",
        "bits_per_key",
        "prefix =",
        "whole_key_filtering",
        "prefix(",
    ] {
        assert!(policies.iter().any(|policy| policy.contains(setting)));
    }
    assert!(text.contains("false_positive_rate"));
}

#[test]
fn documented_redis_equals_the_defaults() {
    let documented = load("documented-redis.toml", &documented("[redis]"), &[]).expect("right");
    let address = "[redis]\naddress = \"127.0.0.1:6379\"";
    let alone = load("redis-alone.toml", address, &[]).expect("right");
    assert_eq!(documented, alone);
    let redis = alone.redis.expect("has an address");
    assert_eq!(
        (redis.timeout, redis.entry_ttl),
        (Duration::from_millis(20), Duration::from_secs(86_400))
    );
    assert_eq!(
        (redis.username, redis.password, redis.database, redis.tls),
        (None, None, 0, None)
    );
}

#[test]
fn audits_have_a_pause_or_are_off() {
    let every = |index: usize, value: &str| {
        let toml = format!("[pipeline]\naudit_every = \"{value}\"");
        load(&format!("audit-{index}.toml"), &toml, &[]).map(|config| config.pipeline.audit_every)
    };
    let day = Duration::from_secs(86_400);
    assert_eq!(every(1, "30d"), Ok(Some(30 * day)));
    assert_eq!(every(2, "off"), Ok(None));
    for (index, wrong) in ["0s", "never", "367d"].into_iter().enumerate() {
        let told = every(3 + index, wrong).expect_err("wrong").remove(0);
        assert!(told.contains("from 1s to 366d, or \"off\""), "{told}");
    }
}

#[test]
fn relay_follows_a_control_keyspace_that_it_finds_unless_told_otherwise() {
    let enabled = |index: usize, toml: &str| {
        let config = load(&format!("enabled-{index}.toml"), toml, &[]);
        config.expect("right").control.enabled
    };
    assert_eq!(enabled(1, ""), Enabled::IfFound);
    assert_eq!(enabled(2, "[[table]]\nname = \"a.b\""), Enabled::Yes);
    let off = "[control]\nenabled = false\n";
    assert_eq!(
        enabled(3, &format!("{off}[[table]]\nname = \"a.b\"")),
        Enabled::No
    );
    assert_eq!(enabled(4, "[control]\nenabled = true"), Enabled::Yes);
    assert_eq!(enabled(5, off), Enabled::No);
}

#[test]
fn tables_are_read_with_all_their_settings() {
    let toml = r#"
        [[table]]
        name = 'Plant."Reading"'
        mode = "detect"
        late_writes = "reject"
        wide_bytes = "1GiB"
        target_bytes = 65536
        max_buckets = 4096
        shards = 1
        time_bucket_column = "day"
        time_bucket_unit = "days"
        time_bucket_width = "1d"
        accept_limit = "0s"
        quiet_for = "90s"
        filter = ["prefix(1)", "bloom(false_positive_rate = 0.01, prefix = 2, whole_key_filtering = false)"]
        [[table]]
        name = "plant.reading"
        filter = []
    "#;
    let config = load("tables.toml", toml, &[]).expect("right");
    let first = WatchedTable {
        name: TableName::new("plant", "Reading"),
        mode: Mode::Detect,
        paused: false,
        late_writes: LateWrites::Reject,
        wide_bytes: 1 << 30,
        target_bytes: 65_536,
        max_buckets: 4096,
        shards: 1,
        time_bucket_column: Some("day".to_owned()),
        time_bucket_unit: Some(BucketUnit::Days),
        time_bucket_width: Some(Duration::from_secs(86_400)),
        accept_limit: Some(Duration::ZERO),
        quiet_for: Duration::from_secs(90),
        filter: vec![
            "prefix(1)".to_owned(),
            "bloom(false_positive_rate = 0.01, prefix = 2, whole_key_filtering = false)".to_owned(),
        ],
    };
    let second = WatchedTable {
        filter: Vec::new(),
        ..WatchedTable::new(TableName::new("plant", "reading"))
    };
    assert_eq!(config.tables, [first, second]);
}

#[test]
fn mistakes_of_all_tables_are_reported_at_once_with_their_entry() {
    let toml = r#"
        [[table]]
        name = "a.b"
        wide_byte = "1GiB"
        [[table]]
        name = "a.B"
        wide_bytes = "big"
        mode = "on"
        [[table]]
        shards = 0
        late_writes = "mirror"
        time_bucket_width = "1d"
        quiet_for = "1500ms"
        [[table]]
        name = "b.c"
        target_bytes = "65MiB"
        filter = ["fuse8"]
        max_buckets = 4097
    "#;
    let found = mistakes(
        "tables-wrong.toml",
        toml,
        &[
            ("NARROWS__TABLE__NAME", "a.b"),
            ("NARROWS__TABEL__NAME", "x"),
        ],
    );
    let expect_start = [
        "table[2].mode = \"on\": expected one of \"off\", \"detect\", \"serve\"",
        "table[2].wide_bytes = \"big\": expected a size",
        "table[2].name = \"a.B\": is in an earlier entry",
        "table[3].name: is missing",
        "table[3].late_writes = \"mirror\": expected one of \"invalidate\", \"reject\"",
        "table[3].shards = 0: expected a whole number from 1 to 4096",
        "table[3].quiet_for = \"1500ms\": expected whole seconds",
        "table[3].time_bucket_width = \"1d\": has no effect without time_bucket_column",
        "table[4].max_buckets = 4097: expected a whole number from 1 to 4096",
        "table[4].filter = [\"fuse8\"]: `fuse8` is not a filter policy",
        "table[4].target_bytes = \"65MiB\": must not be more than wide_bytes, which is 64MiB",
        "NARROWS__TABEL__NAME: is not a setting; known names are",
        "NARROWS__TABLE__NAME: is not read: [[table]] entries come from the file only",
        "table[1].wide_byte: unknown setting; did you mean wide_bytes?",
    ];
    assert_eq!(found.len(), expect_start.len(), "{found:#?}");
    for (line, start) in found.iter().zip(expect_start) {
        assert!(line.starts_with(start), "{line}\nexpected {start}");
    }
}

#[test]
fn settings_of_a_time_bucket_that_have_no_effect_are_refused_with_the_reason() {
    let [column, width, limit, unit] = [
        "time_bucket_column = \"day\"",
        "time_bucket_width = \"1d\"",
        "accept_limit = \"1h\"",
        "time_bucket_unit = \"days\"",
    ];
    let column_is_missing = "has no effect without time_bucket_column, which says";
    for (index, (settings, expected)) in [
        (vec![limit], vec![column_is_missing]),
        (vec![width, limit], vec![column_is_missing; 2]),
        (vec![unit], vec![column_is_missing]),
        (
            vec![column],
            vec!["has no effect without time_bucket_width"],
        ),
        (
            vec![column, width],
            vec!["has no effect without accept_limit"; 2],
        ),
        (vec![column, width, limit], vec![]),
        (vec![column, width, limit, unit], vec![]),
    ]
    .into_iter()
    .enumerate()
    {
        let toml = format!("[[table]]\nname = \"a.b\"\n{}", settings.join("\n"));
        let found = load(&format!("inert-{index}.toml"), &toml, &[]).err();
        let found = found.unwrap_or_default();
        assert_eq!(found.len(), expected.len(), "{toml}: {found:#?}");
        for (line, part) in found.iter().zip(expected) {
            assert!(line.contains(part), "{toml}: {line}");
        }
    }
    let toml = format!("[[table]]\nname = \"a.b\"\n{column}\n{width}\n{limit}");
    let wrong = format!("{toml}\ntime_bucket_unit = \"weeks\"");
    assert_one_mistake(&wrong, "expected one of \"milliseconds\", \"seconds\"");
}

#[test]
fn wrong_control_values_say_what_is_expected() {
    let scratch = file("not-a-directory", "");
    for (toml, expected) in [
        (
            "keyspace = \"a-b\"".to_owned(),
            "control.keyspace = \"a-b\": expected a name of at most 48",
        ),
        (
            "keyspace = \"system_narrows\"".to_owned(),
            "that is not one of Cassandra's own",
        ),
        (
            format!("keyspace = \"{}\"", "k".repeat(49)),
            "of at most 48 letters",
        ),
        (
            "replication = \"3\"".to_owned(),
            "expected a map as in CREATE KEYSPACE",
        ),
        (
            "replication = \"{'class': 'SimpleStrategy'}; DROP KEYSPACE a\"".to_owned(),
            "expected a map as in CREATE KEYSPACE",
        ),
        (
            "poll_interval = \"6s\"\nmax_staleness = \"11s\"".to_owned(),
            "control.max_staleness = \"11s\": must be at least 2 times control.poll_interval, that is 12s",
        ),
        (
            "max_staleness = \"1999ms\"".to_owned(),
            "control.max_staleness = \"1999ms\": must be at least 2 times",
        ),
        ("poll_interval = \"49ms\"".to_owned(), "from 50ms to 7d"),
        (
            "layout_cache_bytes = \"1KiB\"".to_owned(),
            "from 1MiB to 1024GiB",
        ),
        (
            "min_filter_keys = 1025".to_owned(),
            "control.min_filter_keys = 1025: expected a whole number from 0 to 1024",
        ),
        (
            format!("snapshot_directory = {scratch:?}"),
            "is not a directory",
        ),
        (
            "snapshot_directory = \"/proc\"".to_owned(),
            "cannot be written",
        ),
        (
            "filter_check = true".to_owned(),
            "control.filter_check: unknown setting",
        ),
        (
            "[[table]]\nname = \"narrows.wide_row\"".to_owned(),
            "table[1].name = \"narrows.wide_row\": is in control.keyspace",
        ),
        (
            "[[table]]\nname = \"system.local\"".to_owned(),
            "is one of Cassandra's own tables",
        ),
        (
            "[[table]]\nname = \"reading\"".to_owned(),
            "expected a table with its keyspace",
        ),
        (
            "[[table]]\nname = \"a.b.c\"".to_owned(),
            "expected a table with its keyspace",
        ),
        (
            "[[table]]\nname = 'a.\"b c\"'".to_owned(),
            "expected a table with its keyspace",
        ),
        (
            "[[table]]\nname = 'a.\"\"'".to_owned(),
            "expected a table with its keyspace",
        ),
    ] {
        assert_one_mistake(&format!("[control]\n{toml}"), expected);
    }
}

#[test]
fn wrong_redis_values_say_what_is_expected() {
    for (toml, expected) in [
        ("", "redis.address: is missing"),
        ("address = \":6379\"", "is not a host"),
        (
            "address = \"r\"\nusername = \"u\"",
            "redis.username = \"u\": has no password",
        ),
        (
            "address = \"r\"\ntls = true",
            "redis.tls_ca: is required when redis.tls = true",
        ),
        ("address = \"r\"\ntimeout = \"0s\"", "from 1ms to 7d"),
        ("address = \"r\"\ndatabase = -1", "a whole number from 0 to"),
    ] {
        assert_one_mistake(&format!("[redis]\n{toml}"), expected);
    }
}

fn assert_one_mistake(toml: &str, expected: &str) {
    // Tests run side by side, and each text needs a file of its own.
    let name: String = toml.chars().filter(char::is_ascii_alphanumeric).collect();
    let found = mistakes(&format!("wrong-{:.100}.toml", name), toml, &[]);
    assert_eq!(found.len(), 1, "{toml}: {found:#?}");
    assert!(found[0].contains(expected), "{toml}: {}", found[0]);
}

#[test]
fn right_control_values_are_taken() {
    let directory = file("snapshots/kept", "");
    let directory = directory.parent().expect("has one");
    let toml = format!(
        "[control]\nkeyspace = \"My_Control\"\nreplication = \"{{'class': 'SimpleStrategy', 'replication_factor': 1}}\"\n\
         poll_interval = \"100ms\"\nmax_staleness = \"200ms\"\napply_schema = false\nsnapshot_directory = {directory:?}"
    );
    let variables = [("NARROWS__CONTROL__LAYOUT_CACHE_BYTES", "1MiB")];
    let control = load("control-right.toml", &toml, &variables)
        .expect("right")
        .control;
    assert_eq!(control.keyspace, "My_Control");
    assert_eq!(
        control.replication.expect("is set").to_string(),
        "{'class': 'SimpleStrategy', 'replication_factor': '1'}"
    );
    assert_eq!(
        (control.poll_interval, control.max_staleness),
        (Duration::from_millis(100), Duration::from_millis(200))
    );
    assert!(!control.apply_schema && control.enabled == Enabled::IfFound);
    assert_eq!(control.layout_cache_bytes, 1 << 20);
    assert_eq!(control.min_filter_keys, 1000);
    assert_eq!(control.snapshot_directory.as_deref(), Some(directory));
    let left = std::fs::read_dir(directory).expect("exists").count();
    assert_eq!(left, 1, "the probe of the directory leaves nothing behind");
}

#[test]
fn redis_password_may_stand_alone_and_is_never_shown() {
    let password = file("redis-password", "hunter2\n");
    let toml = format!(
        "[redis]\naddress = \"[::1]\"\npassword_file = {password:?}\ntls = true\ntls_ca = {password:?}"
    );
    let config = load("redis-password.toml", &toml, &[]).expect("right");
    assert!(!format!("{config:?}").contains("hunter2"));
    let redis = config.redis.expect("has an address");
    assert_eq!((redis.host.as_str(), redis.port), ("::1", 6379));
    assert_eq!(redis.password.expect("is set").expose(), "hunter2");
    assert!(redis.tls.expect("is on").verify_hostname);
    let both = format!("{toml}\npassword = \"hunter2\"");
    let found = mistakes("redis-passwords.toml", &both, &[]);
    assert!(
        found[0].contains("keep one of them") && !found[0].contains("hunter2"),
        "{found:?}"
    );
}

#[test]
fn changes_need_a_restart_and_are_named() {
    let old = load(
        "change-old.toml",
        "[[table]]\nname = \"a.b\"\n[[table]]\nname = \"a.c\"",
        &[],
    )
    .expect("right");
    let toml = "[control]\nkeyspace = \"other\"\n[redis]\naddress = \"r\"\n\
                [[table]]\nname = \"a.d\"\n[[table]]\nname = \"a.c\"\n[[table]]\nname = \"a.b\"\nmode = \"off\"";
    let new = load("change-new.toml", toml, &[]).expect("right");
    let expected = ["control.keyspace", "redis", "table a.b", "table a.d"];
    let expected: Vec<String> = expected.map(str::to_owned).to_vec();
    assert_eq!(changed_without_restart(&old, &new), (vec![], expected));
}
