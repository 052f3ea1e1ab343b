//! Exit codes, after sysexits.h, so that supervisors can tell a mistake from an outage.

/// Stopped as asked, or nothing wrong was found.
pub const OK: u8 = 0;
/// The configuration or the command line is wrong; starting again will not help.
pub const CONFIGURATION: u8 = 64;
/// A split in service was not equal to its original.
pub const DIFFERENCE: u8 = 65;
/// Cassandra cannot be reached, or its version is not supported; starting again may help.
pub const UPSTREAM_UNAVAILABLE: u8 = 69;
/// A fault of ours.
pub const INTERNAL: u8 = 70;
/// An address that should be listened on cannot be.
pub const CANNOT_LISTEN: u8 = 71;
/// The control keyspace is missing or not as it must be, or our role may not make it; somebody must act in Cassandra.
pub const CONTROL_KEYSPACE: u8 = 78;
