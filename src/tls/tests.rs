//! Handshakes between our two sides, with certificates made by the `openssl` command below `target/`.

use std::process::Command;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

/// One authority and the certificates it signed, in a directory of its own.
struct Authority {
    directory: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("target/tls-tests")
            .join(name);
        std::fs::create_dir_all(&directory).expect("target/ is writable");
        let authority = Self { directory };
        let subject = format!("/CN={name} authority");
        authority.openssl(
            &format!("req -x509 {KEY} -keyout ca.key -out ca.crt -days 2"),
            &["-subj", &subject],
        );
        authority
    }

    /// A certificate for this DNS name, usable on both sides.
    fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let names = format!("subjectAltName=DNS:{name}");
        let arguments = format!(
            "req -x509 {KEY} -CA ca.crt -CAkey ca.key -keyout {name}.key -out {name}.crt -days 2"
        );
        let subject = format!("/CN={name}");
        self.openssl(
            &arguments,
            &[
                "-subj",
                &subject,
                "-addext",
                &names,
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ],
        );
        (
            self.file(&format!("{name}.crt")),
            self.file(&format!("{name}.key")),
        )
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn ca(&self) -> PathBuf {
        self.file("ca.crt")
    }

    fn openssl(&self, arguments: &str, more: &[&str]) {
        let mut command = Command::new("openssl");
        command
            .args(arguments.split(' '))
            .args(more)
            .current_dir(&self.directory);
        let output = command
            .output()
            .expect("the tests need the openssl command; install the package openssl");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

fn client_side(authority: &Authority, client_ca: Option<PathBuf>) -> Arc<ServerConfig> {
    let (certificate, key) = authority.sign("node.test");
    ClientSide::load(&ClientSideTls {
        certificate,
        key,
        client_ca,
    })
    .expect("the files are right")
}

fn upstream(
    ca: PathBuf,
    pair: Option<(PathBuf, PathBuf)>,
    verify_hostname: bool,
) -> Arc<ClientConfig> {
    load_upstream(&UpstreamTls {
        ca,
        certificate_and_key: pair,
        verify_hostname,
    })
    .expect("the files are right")
}

/// A handshake and one byte each way; the error is what the connecting side sees.
async fn talk(
    accepting: Arc<ServerConfig>,
    connecting: Arc<ClientConfig>,
    name: &str,
) -> std::io::Result<()> {
    let (near, far) = tokio::io::duplex(16 * 1024);
    let accepted = tokio::spawn(async move {
        let mut stream = TlsAcceptor::from(accepting).accept(far).await?;
        let byte = stream.read_u8().await?;
        stream.write_u8(byte).await?;
        stream.flush().await
    });
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let mut stream = TlsConnector::from(connecting).connect(name, near).await?;
    stream.write_u8(7).await?;
    stream.flush().await?;
    assert_eq!(stream.read_u8().await?, 7);
    accepted.await.expect("no panic")
}

#[tokio::test]
async fn both_sides_talk_when_name_and_chain_are_right() {
    let authority = Authority::new("plain");
    let result = talk(
        client_side(&authority, None),
        upstream(authority.ca(), None, true),
        "node.test",
    )
    .await;
    result.expect("all is right");
}

#[tokio::test]
async fn another_name_is_refused_unless_names_are_not_verified() {
    let authority = Authority::new("names");
    let accepting = client_side(&authority, None);
    let refused = talk(
        Arc::clone(&accepting),
        upstream(authority.ca(), None, true),
        "other.test",
    )
    .await;
    let message = refused.expect_err("the name is wrong").to_string();
    assert!(message.contains("not valid for"), "{message}");
    let lenient = upstream(authority.ca(), None, false);
    talk(Arc::clone(&accepting), Arc::clone(&lenient), "other.test")
        .await
        .expect("any name will do");
    talk(accepting, lenient, "127.0.0.1")
        .await
        .expect("any address will do");
}

#[tokio::test]
async fn a_foreign_authority_is_refused_even_when_names_are_not_verified() {
    let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    for name in ["node.test", "other.test"] {
        let result = talk(
            client_side(&foreign, None),
            upstream(ours.ca(), None, false),
            name,
        )
        .await;
        let message = result.expect_err("the authority is foreign").to_string();
        assert!(message.contains("UnknownIssuer"), "{message}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_required_when_its_authority_is_set() {
    let (authority, foreign) = (Authority::new("mutual"), Authority::new("mutual-foreign"));
    let accepting = client_side(&authority, Some(authority.ca()));
    let known = upstream(authority.ca(), Some(authority.sign("app.test")), true);
    talk(Arc::clone(&accepting), known, "node.test")
        .await
        .expect("the certificate is known");
    let without = upstream(authority.ca(), None, true);
    assert!(
        talk(Arc::clone(&accepting), without, "node.test")
            .await
            .is_err()
    );
    let unknown = upstream(authority.ca(), Some(foreign.sign("app.test")), true);
    assert!(talk(accepting, unknown, "node.test").await.is_err());
}

#[test]
fn errors_name_the_file_and_the_remedy() {
    let authority = Authority::new("errors");
    let (certificate, key) = authority.sign("one.test");
    let (_, other_key) = authority.sign("two.test");
    let empty = authority.file("empty.pem");
    std::fs::write(&empty, "").expect("target/ is writable");
    let load = |certificate: &Path, key: &Path, client_ca: Option<&Path>| {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let tls = ClientSideTls {
            certificate,
            key,
            client_ca: client_ca.map(Path::to_owned),
        };
        ClientSide::load(&tls)
            .expect_err("the files are wrong")
            .to_string()
    };
    for (message, file, remedy) in [
        (
            load(&empty, &key, None),
            "empty.pem",
            "-----BEGIN CERTIFICATE-----",
        ),
        (
            load(&certificate, &empty, None),
            "empty.pem",
            "openssl pkey",
        ),
        (
            load(&certificate, &other_key, None),
            "two.test.key",
            "check that the key belongs",
        ),
        (
            load(&certificate, &key, Some(&empty)),
            "empty.pem",
            "-----BEGIN CERTIFICATE-----",
        ),
        (
            load(&authority.file("none.pem"), &key, None),
            "none.pem",
            "check the path",
        ),
    ] {
        assert!(
            message.contains(file) && message.contains(remedy),
            "{message}"
        );
    }
}
