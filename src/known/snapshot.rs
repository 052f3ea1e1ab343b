//! A table's filter on disk, so that a restarted proxy starts warm instead of matching everything until each shard is
//! read from the store again.
//!
//! A loaded filter is as old as its file: keys changed since are missing from it. Its `false` may be relied on only
//! after the keys that changed since the save, according to the store, were inserted.
//!
//! Losing a file costs nothing but time, so a file that cannot be read whole is ignored. Blocking: for threads that may
//! wait. Must never write outside its directory, whatever a table is called.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use crate::filter::{self, Policies, TableFilter};
use crate::schema::names::TableName;

/// Maximum size of a file: that of the default filter for some 200 million keys. Anything larger is not ours.
pub const FILE_BYTES_MAX: u64 = 512 << 20;
/// Maximum length of a file's name without its endings; file systems allow 255.
const NAME_BYTES_MAX: usize = 180;
const ENDING: &str = "filter";
const TEMPORARY: &str = "tmp";

/// Why a filter was not written or not read. Never fatal.
#[derive(Debug, Error)]
pub enum SnapshotError {
    #[error("cannot {step} {}: {error}", path.display())]
    Io {
        step: &'static str,
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("a filter of {0} bytes exceeds the limit of {FILE_BYTES_MAX}")]
    TooLarge(u64),
    #[error(
        "{} is damaged, or belongs to another table, version or number of shards: {damaged} parts are unreadable",
        path.display()
    )]
    Unreadable { path: PathBuf, damaged: usize },
}

/// Saves of this process take turns, so a temporary file that one finds is not in use by another.
static SAVING: Mutex<()> = Mutex::new(());

/// Replaces the table's file as a whole: after a crash at any moment, either the old or the new one is there. To load
/// it, `context` must be the same, as well as the table's name. It could be the table's id or the store's epoch.
pub fn save(
    directory: &Path,
    table: &TableName,
    filter: &TableFilter,
    context: &[u8],
) -> Result<(), SnapshotError> {
    let bytes = filter.encode(&bind(table, context));
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(SnapshotError::TooLarge(bytes.len() as u64));
    }
    let _turn = SAVING.lock().unwrap_or_else(PoisonError::into_inner);
    fs::create_dir_all(directory).map_err(io_error("create", directory))?;
    let name = file_name(table);
    remove_leftovers(directory, &name)?;
    let temporary = directory.join(format!("{name}.{}.{TEMPORARY}", std::process::id()));
    let written = write_new(&temporary, &bytes).and_then(|()| {
        let path = directory.join(&name);
        fs::rename(&temporary, &path).map_err(io_error("replace", &path))
    });
    if written.is_err() {
        // The first error is the one to report; the next save removes what stays.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    // Without this, a power failure may undo the rename, though it never damages the contents.
    let opened = File::open(directory).and_then(|directory| directory.sync_all());
    opened.map_err(io_error("sync", directory))
}

/// The table's filter as it was saved with the same context and number of shards. If the policies have changed since,
/// it asks for a rebuild. `None` if there is no file, or, with a warning, if it cannot be read whole.
pub fn load(
    directory: &Path,
    table: &TableName,
    context: &[u8],
    policies: Policies,
    shards: usize,
) -> Option<TableFilter> {
    let path = directory.join(file_name(table));
    match read(&path, &bind(table, context), policies, shards) {
        Ok(filter) => filter,
        Err(error) => {
            tracing::warn!(%table, %error, "a stored filter is ignored and will be rebuilt");
            None
        }
    }
}

fn read(
    path: &Path,
    context: &[u8],
    policies: Policies,
    shards: usize,
) -> Result<Option<TableFilter>, SnapshotError> {
    let Some(bytes) = read_file(path)? else {
        return Ok(None);
    };
    let restored = TableFilter::decode(&bytes, context, policies, shards);
    if restored.damaged > 0 {
        return Err(SnapshotError::Unreadable {
            path: path.into(),
            damaged: restored.damaged,
        });
    }
    Ok(Some(restored.filter))
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, SnapshotError> {
    // Checked before opening: opening a pipe would wait for a writer.
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        looked_up => looked_up.map_err(io_error("look up", path))?,
    };
    if !metadata.is_file() {
        return Err(SnapshotError::NotAFile(path.into()));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(SnapshotError::TooLarge(metadata.len()));
    }
    let file = File::open(path).map_err(io_error("open", path))?;
    let mut bytes = Vec::new();
    // The file may have grown since.
    let mut limited = file.take(FILE_BYTES_MAX);
    let read = limited.read_to_end(&mut bytes);
    read.map_err(io_error("read", path))?;
    Ok(Some(bytes))
}

/// The file is on disk when this returns.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), SnapshotError> {
    let mut options = OpenOptions::new();
    // `create_new` follows no link that somebody else made.
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path).map_err(io_error("create", path))?;
    file.write_all(bytes).map_err(io_error("write", path))?;
    file.sync_all().map_err(io_error("sync", path))
}

/// Removes temporary files of this table that a crash has left. This may hit the file of another process that is saving
/// right now: its save then fails, and the file under the real name stays whole.
fn remove_leftovers(directory: &Path, name: &str) -> Result<(), SnapshotError> {
    let entries = fs::read_dir(directory).map_err(io_error("list", directory))?;
    for entry in entries {
        let entry = entry.map_err(io_error("list", directory))?;
        if entry
            .file_name()
            .to_str()
            .is_some_and(|file| is_leftover(file, name))
        {
            let path = entry.path();
            fs::remove_file(&path).map_err(io_error("remove", &path))?;
        }
    }
    Ok(())
}

fn is_leftover(file: &str, name: &str) -> bool {
    let process = file
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('.'))
        .and_then(|rest| rest.strip_suffix(TEMPORARY)?.strip_suffix('.'));
    process.is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `keyspace.table.filter`, readable for usual names and different for different tables.
fn file_name(table: &TableName) -> String {
    let mut name = format!("{}.{}", encode(&table.keyspace), encode(&table.table));
    if name.len() > NAME_BYTES_MAX {
        // No encoded name contains `~`, so a shortened name is never taken for a whole one.
        let hash = filter::hash(name.as_bytes());
        name.truncate(NAME_BYTES_MAX);
        name += &format!("~{hash:016x}");
    }
    format!("{name}.{ENDING}")
}

/// Keeps lower-case letters, digits and `_`; every other byte becomes `%` and two hex digits. So do capitals, because
/// some file systems ignore case and Cassandra does not.
fn encode(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' => encoded.push(byte.into()),
            _ => encoded += &format!("%{byte:02x}"),
        }
    }
    encoded
}

/// Binds a file to its table, whatever it is called: shortened names could coincide, and people copy files.
fn bind(table: &TableName, context: &[u8]) -> Vec<u8> {
    let mut bound = Vec::new();
    for name in [&table.keyspace, &table.table] {
        bound.extend_from_slice(&(name.len() as u64).to_le_bytes());
        bound.extend_from_slice(name.as_bytes());
    }
    bound.extend_from_slice(context);
    bound
}

fn io_error(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SnapshotError {
    let path = path.to_owned();
    move |error| SnapshotError::Io { step, path, error }
}

#[cfg(test)]
mod tests;
