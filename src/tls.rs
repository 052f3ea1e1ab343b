//! Builds `rustls` configurations from the configured TLS files, for drivers and for Cassandra.
//!
//! The provider is passed explicitly, so nothing depends on a process-wide default. No ALPN is offered: CQL has none,
//! and drivers would not know what to do with it. Errors name the file and say what to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig,
    SignatureScheme,
};

use crate::config::{ClientSideTls, UpstreamTls};

/// Why TLS cannot be set up with the files that the configuration names.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(
        "{file}: cannot be read as PEM ({reason}); check the path, its permissions and that the file is PEM"
    )]
    Unreadable { file: PathBuf, reason: pem::Error },
    #[error(
        "{file}: holds no certificate; it needs a block that starts with -----BEGIN CERTIFICATE-----"
    )]
    NoCertificate { file: PathBuf },
    #[error(
        "{file}: holds no private key; it needs an unencrypted PKCS#8, PKCS#1 or SEC1 key, \
         for instance from: openssl pkey -in encrypted.key -out plain.key"
    )]
    NoKey { file: PathBuf },
    #[error(
        "{file}: is not usable as a certificate authority ({reason}); it must hold the authority's own certificates"
    )]
    Authority { file: PathBuf, reason: String },
    #[error(
        "{certificate} and {key}: cannot be used together ({reason}); check that the key belongs to the first certificate"
    )]
    Pair {
        certificate: PathBuf,
        key: PathBuf,
        reason: rustls::Error,
    },
    #[error("this build offers no usable TLS version ({0}); please report it")]
    Provider(rustls::Error),
}

/// TLS towards drivers.
pub struct ClientSide;

impl ClientSide {
    /// With `client_ca`, a driver without a certificate signed by one of its authorities is refused.
    pub fn load(tls: &ClientSideTls) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Provider)?;
        let builder = match &tls.client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(authorities(file)?, provider)
                        .build()
                        .map_err(|error| TlsError::Authority {
                            file: file.clone(),
                            reason: error.to_string(),
                        })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder
            .with_single_cert(certificates(&tls.certificate)?, private_key(&tls.key)?)
            .map_err(|reason| pair_error(&tls.certificate, &tls.key, reason))?;
        Ok(Arc::new(config))
    }
}

/// TLS towards Cassandra.
pub fn load_upstream(tls: &UpstreamTls) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = provider();
    let verifier =
        WebPkiServerVerifier::builder_with_provider(authorities(&tls.ca)?, Arc::clone(&provider))
            .build()
            .map_err(|error| TlsError::Authority {
                file: tls.ca.clone(),
                reason: error.to_string(),
            })?;
    let verifier: Arc<dyn ServerCertVerifier> = if tls.verify_hostname {
        verifier
    } else {
        Arc::new(AnyName { chain: verifier })
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Provider)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match &tls.certificate_and_key {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|reason| pair_error(certificate, key, reason))?,
    };
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn authorities(file: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(file)? {
        let added = store.add(certificate);
        added.map_err(|error| TlsError::Authority {
            file: file.to_owned(),
            reason: error.to_string(),
        })?;
    }
    Ok(Arc::new(store))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |reason| TlsError::Unreadable {
        file: file.to_owned(),
        reason,
    };
    let chain: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(unreadable)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate {
            file: file.to_owned(),
        });
    }
    Ok(chain)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|reason| match reason {
        pem::Error::NoItemsFound => TlsError::NoKey {
            file: file.to_owned(),
        },
        reason => TlsError::Unreadable {
            file: file.to_owned(),
            reason,
        },
    })
}

fn pair_error(certificate: &Path, key: &Path, reason: rustls::Error) -> TlsError {
    TlsError::Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        reason,
    }
}

/// Verifies the chain and the signatures, and accepts any name in a certificate that passed.
///
/// This relies on `WebPkiServerVerifier` checking the name last: a name error means that the chain is valid. The test
/// with a foreign authority makes sure of that.
#[derive(Debug)]
struct AnyName {
    chain: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.chain.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests;
