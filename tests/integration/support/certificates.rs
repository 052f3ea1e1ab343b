//! Certificates that live as long as a test, made by the `openssl` command.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An authority and what it signed, in a directory of its own.
pub(crate) struct Authority {
    directory: PathBuf,
}

impl Authority {
    pub(crate) fn new(directory: PathBuf) -> Self {
        std::fs::create_dir_all(&directory).expect("target is ours to write");
        let authority = Self { directory };
        authority.request("ca", "/CN=narrows test authority", &[]);
        authority
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// Certificate and key for a name such as `IP:127.0.0.1`, for servers and clients alike.
    pub(crate) fn sign(&self, stem: &str, name: &str) -> (PathBuf, PathBuf) {
        let names = format!("subjectAltName={name}");
        self.request(
            stem,
            "/CN=narrows test",
            &[
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-addext",
                &names,
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ],
        );
        let file = |ending: &str| self.directory.join(format!("{stem}.{ending}"));
        (file("pem"), file("key"))
    }

    fn request(&self, stem: &str, subject: &str, more: &[&str]) {
        let (certificate, key) = (format!("{stem}.pem"), format!("{stem}.key"));
        let new_key = "req -x509 -nodes -days 2 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1";
        let made = Command::new("openssl")
            .current_dir(Path::new(&self.directory))
            .args(new_key.split(' '))
            .args(["-subj", subject, "-out", &certificate, "-keyout", &key])
            .args(more)
            .output()
            .expect("openssl is installed");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "openssl failed: {said}");
    }
}
