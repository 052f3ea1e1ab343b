//! Saving and loading on a real file system, with files that are not what they should be.

use std::collections::BTreeSet;
use std::env;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::filter::{FusePolicy, Installed, LeadingColumns, PrefixPolicy, Target};

const CONTEXT: &[u8] = b"table id 6d1f, epoch 3";
const SHARDS: usize = 4;

/// A directory of its own for each test, gone at the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("narrows-snapshot-{}-{count}", std::process::id());
        // Saving creates it.
        Self(env::temp_dir().join(name))
    }

    fn files(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.0).expect("the directory exists");
        entries
            .map(|entry| entry.expect("an entry").file_name().into_string().unwrap())
            .collect()
    }

    /// The file of [`samples`].
    fn path(&self) -> PathBuf {
        self.0.join("metrics.samples.filter")
    }

    fn save(&self, filter: &TableFilter) {
        save(&self.0, &samples(), filter, CONTEXT).expect("a save");
    }

    fn load(&self) -> Option<TableFilter> {
        load(&self.0, &samples(), CONTEXT, fuse(), SHARDS)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn samples() -> TableName {
    TableName::new("metrics", "samples")
}

fn fuse() -> Policies {
    Arc::new([Arc::new(FusePolicy)])
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn holds(filter: &TableFilter, keys: std::ops::Range<u32>) -> bool {
    keys.clone()
        .all(|n| filter.might_match(&Target::key(&key(n))))
}

/// Keys 0 to 200, the last hundred inserted after the rebuild.
fn built() -> TableFilter {
    let filter = TableFilter::new(fuse(), SHARDS);
    for shard in 0..SHARDS {
        assert_eq!(
            filter.rebuild_shard(shard, (0..100).map(key)),
            Installed::Yes
        );
    }
    filter.insert_all((100..200).map(key));
    filter
}

/// What a warning says during `work`, one per line.
fn warnings<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let file = Arc::new(Mutex::new(Vec::new()));
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(Lines(Arc::clone(&file)))
        .finish();
    let result = tracing::subscriber::with_default(subscriber, work);
    let text = String::from_utf8(file.lock().unwrap().clone()).expect("UTF-8");
    (result, text.lines().map(str::to_owned).collect())
}

#[derive(Clone)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[test]
fn a_saved_filter_comes_back_whole() {
    let directory = Directory::new();
    let (loaded, silent) = warnings(|| directory.load());
    assert!(loaded.is_none() && silent.is_empty(), "{silent:?}");

    let filter = built();
    directory.save(&filter);
    let (loaded, silent) = warnings(|| directory.load());
    let loaded = loaded.expect("what was saved");
    assert!(silent.is_empty(), "{silent:?}");
    assert!(holds(&loaded, 0..200));
    let wrong = (1_000..2_000).filter(|n| holds(&loaded, *n..n + 1)).count();
    assert!(wrong < 10, "{wrong} of 1000");
    assert_eq!(loaded.stats(), filter.stats());
    assert_eq!(loaded.needs_rebuild(), Vec::<usize>::new());
    assert_eq!(loaded.encode(CONTEXT), filter.encode(CONTEXT));

    filter.insert_all((200..300).map(key));
    directory.save(&filter);
    assert!(holds(&directory.load().expect("the second save"), 0..300));
    assert_eq!(
        directory.files(),
        BTreeSet::from(["metrics.samples.filter".into()])
    );
    let mode = fs::metadata(directory.path())
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn other_policies_than_saved_ask_for_a_rebuild() {
    let directory = Directory::new();
    directory.save(&built());
    let prefix = PrefixPolicy::new(Arc::new(LeadingColumns::new(1)));
    let both: Policies = Arc::new([Arc::new(FusePolicy), Arc::new(prefix)]);
    let (loaded, silent) = warnings(|| load(&directory.0, &samples(), CONTEXT, both, SHARDS));
    let loaded = loaded.expect("the part that is known");
    assert!(silent.is_empty(), "{silent:?}");
    assert!(holds(&loaded, 0..200));
    assert_eq!(loaded.needs_rebuild().len(), SHARDS);
}

/// Makes something else of the file, and says what the warning must contain.
type Spoil = (&'static str, fn(&Path));

#[test]
fn what_is_not_ours_is_ignored_with_one_warning() {
    let spoils: [Spoil; 9] = [
        ("metrics.samples.filter is damaged", |path| {
            fs::write(path, b"").unwrap()
        }),
        ("metrics.samples.filter is damaged", |path| {
            fs::write(path, b"#!/bin/sh\n").unwrap()
        }),
        ("metrics.samples.filter is damaged", |path| {
            fs::write(path, vec![0; 1 << 16]).unwrap()
        }),
        ("1 parts are unreadable", |path| {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x40;
            fs::write(path, bytes).unwrap();
        }),
        ("metrics.samples.filter is damaged", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
        }),
        ("metrics.samples.filter is damaged", |path| {
            let twice = fs::read(path).unwrap().repeat(2);
            fs::write(path, twice).unwrap();
        }),
        ("is not a regular file", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        ("is not a regular file", |path| {
            let moved = path.with_extension("moved");
            fs::rename(path, &moved).unwrap();
            symlink(moved, path).unwrap();
        }),
        ("exceeds the limit", |path| {
            // Sparse, so it costs nothing.
            File::create(path)
                .unwrap()
                .set_len(FILE_BYTES_MAX + 1)
                .unwrap();
        }),
    ];
    for (expected, spoil) in spoils {
        let directory = Directory::new();
        directory.save(&built());
        spoil(&directory.path());
        let (loaded, lines) = warnings(|| directory.load());
        assert!(loaded.is_none(), "{expected}");
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("WARN") && lines[0].contains("table=metrics.samples"));
        assert!(lines[0].contains(expected), "{lines:?}");
    }
}

#[test]
fn another_context_table_or_shard_count_is_ignored() {
    let directory = Directory::new();
    directory.save(&built());
    let other = TableName::new("metrics", "other");
    let other_path = directory.0.join("metrics.other.filter");
    fs::copy(directory.path(), other_path).unwrap();
    let table = samples();
    let cases: [(&TableName, &[u8], usize); 3] = [
        (&table, b"table id 6d1f, epoch 4", SHARDS),
        (&other, CONTEXT, SHARDS),
        (&table, CONTEXT, SHARDS * 2),
    ];
    for (table, context, shards) in cases {
        let (loaded, lines) = warnings(|| load(&directory.0, table, context, fuse(), shards));
        assert!(loaded.is_none());
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("another table, version or number of shards"));
    }
}

#[test]
fn a_save_clears_what_a_crash_left_and_nothing_else() {
    let directory = Directory::new();
    directory.save(&built());
    let ours = [
        format!("metrics.samples.filter.{}.tmp", std::process::id()),
        "metrics.samples.filter.1.tmp".into(),
    ];
    let foreign = [
        "metrics.samples.filter.tmp",
        "metrics.samples.filter.x.tmp",
        "metrics.samples2.filter.1.tmp",
        "notes.txt",
    ];
    for name in ours.iter().map(String::as_str).chain(foreign) {
        fs::write(directory.0.join(name), b"half a filt").unwrap();
    }
    assert!(holds(
        &directory.load().expect("untouched by leftovers"),
        0..200
    ));
    directory.save(&built());
    let mut expected: BTreeSet<String> = foreign.map(str::to_owned).into();
    expected.insert("metrics.samples.filter".into());
    assert_eq!(directory.files(), expected);
}

#[test]
fn a_failed_save_leaves_the_old_file_and_no_temporary_one() {
    let directory = Directory::new();
    fs::create_dir_all(directory.path().join("in the way")).unwrap();
    let error = save(&directory.0, &samples(), &built(), CONTEXT).expect_err("a directory");
    assert!(error.to_string().starts_with("cannot replace "), "{error}");
    assert_eq!(
        directory.files(),
        BTreeSet::from(["metrics.samples.filter".into()])
    );

    let file = Directory::new();
    fs::write(&file.0, b"not a directory").unwrap();
    let error = save(&file.0, &samples(), &built(), CONTEXT).expect_err("a file");
    assert!(error.to_string().starts_with("cannot create "), "{error}");
    let (loaded, lines) = warnings(|| file.load());
    assert!(loaded.is_none());
    assert_eq!(lines.len(), 1, "{lines:?}");
    fs::remove_file(&file.0).unwrap();
}

#[test]
fn saves_and_loads_at_once_see_only_whole_files() {
    let directory = Directory::new();
    let filter = built();
    directory.save(&filter);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..20).for_each(|_| directory.save(&filter)));
        }
        for _ in 0..200 {
            assert!(holds(
                &directory.load().expect("always a whole file"),
                0..200
            ));
        }
    });
    assert_eq!(directory.files().len(), 1);
}

#[test]
fn names_stay_in_the_directory_and_apart() {
    let long = "x".repeat(400);
    let longer = "x".repeat(401);
    let capitals = "É".repeat(100);
    let tables = [
        ("metrics", "samples"),
        ("Metrics", "samples"),
        ("metrics", "Samples"),
        ("metrics.samples", ""),
        ("", "metrics.samples"),
        ("metrics", "samples.filter"),
        ("..", ".."),
        ("", ""),
        ("../../etc", "passwd"),
        ("/etc", "passwd"),
        ("%2e%2e", "/"),
        ("a\0b", "c\nd"),
        ("~", "~"),
        (&long, "t"),
        (&longer, "t"),
        ("t", &long),
        (&capitals, &capitals),
    ];
    let mut seen = BTreeSet::new();
    for (keyspace, table) in tables {
        let name = file_name(&TableName::new(keyspace, table));
        let path = Path::new(&name);
        assert_eq!(
            path.file_name(),
            Some(path.as_os_str()),
            "{name:?} leads elsewhere"
        );
        assert!(name.len() + ".4294967295.tmp".len() <= 255, "{name}");
        assert!(name.ends_with(".filter"), "{name}");
        let plain = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_%.~".contains(&byte)
        };
        assert!(name.bytes().all(plain), "{name}");
        assert!(seen.insert(name.clone()), "{name} is taken twice");
    }
    assert_eq!(file_name(&samples()), "metrics.samples.filter");
    assert_eq!(
        file_name(&TableName::new("..", "a/B")),
        "%2e%2e.a%2f%42.filter"
    );
}

#[test]
fn odd_names_are_saved_and_loaded() {
    let directory = Directory::new();
    let long = "x".repeat(300);
    let tables = [("..", "/"), (&long, "t"), ("", ""), ("Ks", "größe")];
    for (keyspace, table) in tables {
        let table = TableName::new(keyspace, table);
        save(&directory.0, &table, &built(), CONTEXT).expect("a save");
        let loaded = load(&directory.0, &table, CONTEXT, fuse(), SHARDS);
        assert!(holds(&loaded.expect("what was saved"), 0..200), "{table}");
    }
    assert_eq!(directory.files().len(), tables.len());
}
